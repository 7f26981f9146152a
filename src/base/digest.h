// SHA-256 of files and texts, as lower-case hexadecimal.
#ifndef TENON_BASE_DIGEST_H_
#define TENON_BASE_DIGEST_H_

#include <string>

#include "base/status.h"

namespace tenon {

Result<std::string> FileDigest(const std::string& path);
/// Of a model: a file's own; of a folder one over names and contents of the files in it, without those of folders in it.
Result<std::string> ModelDigest(const std::string& path);
std::string TextDigest(const std::string& text);

/// Names, sizes and change times of the other files in `path`'s folder that could hold its external data (one text; empty when
/// the file stands alone). Cheap stand-in for digesting gigabytes of weights.
std::string SiblingStamp(const std::string& path);

}  // namespace tenon

#endif  // TENON_BASE_DIGEST_H_
