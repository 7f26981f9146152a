// Whose turn it is on shared cores: groups get time in proportion to their weights, whatever their runs take. Start-time fair
// queueing (Goyal, Vin, Cheng 1996) over sets of cores; no clock and no lock of its own.
#ifndef TENON_SERVE_TURN_ORDER_H_
#define TENON_SERVE_TURN_ORDER_H_

#include <algorithm>
#include <list>
#include <set>
#include <vector>

namespace tenon::serve {

/// What a group has had of the cores it shares. Belongs to the TurnOrder it is used with.
struct TimeShare {
  double weight = 1;
  double used = 0;   ///< virtual time: core-seconds by weight
};

class TurnOrder {
 public:
  struct Entry {
    const std::vector<int>* cores;
    TimeShare* share;
    double since;   // virtual time of the arrival: a group that was idle has saved up nothing
    double due() const { return std::max(share->used, since); }
  };
  using Ticket = std::list<Entry>::iterator;

  /// `cores` and `share` outlive the turn.
  Ticket Arrive(const std::vector<int>& cores, TimeShare& share) {
    return waiting_.insert(waiting_.end(), Entry{&cores, &share, now_});
  }
  /// All cores are free, and nobody who wants one of them goes first: by virtual time, then by arrival.
  bool MayStart(Ticket me) const {
    for (int c : *me->cores) {
      if (busy_.count(c) > 0) return false;
    }
    bool before = true;   // those in the list up to me came earlier
    for (std::list<Entry>::const_iterator it = waiting_.begin(), mine = me; it != waiting_.end(); ++it) {
      if (it == mine) {
        before = false;
      } else if ((it->due() < me->due() || (before && it->due() == me->due())) && Overlap(*it->cores, *me->cores)) {
        return false;
      }
    }
    return true;
  }
  void Start(Ticket me) {
    now_ = std::max(now_, me->due());
    me->share->used = me->due();
    busy_.insert(me->cores->begin(), me->cores->end());
    waiting_.erase(me);
  }
  /// Of a turn that was started; `seconds`: how long it had the cores.
  void End(const std::vector<int>& cores, TimeShare& share, double seconds) {
    for (int c : cores) busy_.erase(c);
    share.used += seconds * static_cast<double>(cores.size()) / share.weight;
  }

  bool anybody_waits() const { return !waiting_.empty(); }
  size_t busy() const { return busy_.size(); }

 private:
  static bool Overlap(const std::vector<int>& a, const std::vector<int>& b) {
    return std::any_of(a.begin(), a.end(), [&](int c) { return std::find(b.begin(), b.end(), c) != b.end(); });
  }

  std::list<Entry> waiting_;
  std::set<int> busy_;
  double now_ = 0;   // virtual
};

}  // namespace tenon::serve

#endif  // TENON_SERVE_TURN_ORDER_H_
