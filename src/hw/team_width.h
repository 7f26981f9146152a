// How many threads worked at one time, for profilers. Apart from team.h, which every kernel includes.
#ifndef TENON_HW_TEAM_WIDTH_H_
#define TENON_HW_TEAM_WIDTH_H_

namespace tenon::hw {

/// Most threads that a ParallelFor called by this thread has used since it last asked; at least 1.
int TakeTeamWidth();

}  // namespace tenon::hw

#endif  // TENON_HW_TEAM_WIDTH_H_
