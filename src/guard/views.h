// Observers of a run do not see what views give (Reshape, Flatten, ...): the same elements in the same order under another name.
#ifndef TENON_GUARD_VIEWS_H_
#define TENON_GUARD_VIEWS_H_

#include <map>
#include <string>

#include "artifact/program.h"

namespace tenon::guard {

/// Name of a view's result -> name of the value it shows, which is no view. Top level only.
std::map<std::string, std::string> ViewSources(const artifact::Program& program);

/// What `name` shows, or `name`.
inline const std::string& SourceOf(const std::map<std::string, std::string>& views, const std::string& name) {
  const auto it = views.find(name);
  return it == views.end() ? name : it->second;
}

}  // namespace tenon::guard

#endif  // TENON_GUARD_VIEWS_H_
