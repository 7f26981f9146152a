// Where Tenon keeps what it can make again: compiled models, measured peaks.
#ifndef TENON_BASE_CACHE_FOLDER_H_
#define TENON_BASE_CACHE_FOLDER_H_

#include <string>

#include "base/status.h"

namespace tenon {

/// `wish`, or $XDG_CACHE_HOME/tenon, or $HOME/.cache/tenon; created when missing. Empty when nobody wished and there is no place
/// to write; kUsage when the wish cannot be met.
Result<std::string> CacheFolder(const std::string& wish);

}  // namespace tenon

#endif  // TENON_BASE_CACHE_FOLDER_H_
