// The `.tenon` file.
//
//   header     120 bytes, little-endian: magic "TENONART", version, sizes and offsets, SHA-256 of metadata, SHA-256 of the header
//   metadata   FlatBuffers (tenon.fbs): program, provenance, digests of the weight section in chunks
//   weights    64-byte aligned tensors; in this file, or in "<file>.weights" when external: what is always read, then packed
//              weights for one kind of machine, then the constants that these stand for. A reader on such a machine leaves the
//              last part alone, any other the middle one.
//
// Reading checks every offset, length and digest before use. Files are written to a temporary name and renamed.
#ifndef TENON_ARTIFACT_ARTIFACT_H_
#define TENON_ARTIFACT_ARTIFACT_H_

#include <functional>
#include <map>
#include <string>

#include "artifact/program.h"
#include "base/mapped_file.h"

namespace tenon::artifact {

struct WriteOptions {
  bool external_weights = false;
  std::map<std::string, std::string> provenance;
  std::string report;  ///< JSON text shown by `tenon inspect`
  std::string packed_for;  ///< machine and build that the packed weights of the program's steps, if any, are for; empty: none
};

/// Writes `program` to `path`; nothing is left behind on failure. kResourceLimit: disk full; kBadInput: cannot be written there.
Status Write(const Program& program, const std::string& path, const WriteOptions& options);

struct Artifact {
  Program program;  ///< constants point into `weights`, which they keep alive
  std::map<std::string, std::string> provenance;
  std::string report;
  std::string packed_for;  ///< of the file, whether its packed weights were read or not
  uint64_t packed_bytes = 0;  ///< of them
  bool packed = false;  ///< the program's steps have them; constants that are `packed_away` were not checked
  std::shared_ptr<MappedFile> weights;  ///< null when there are none
};

/// Runs fn(i) for i in [0, n), possibly in parallel; used to spread digest checks over the caller's threads.
using ForEach = std::function<void(int64_t n, const std::function<void(int64_t)>& fn)>;

struct ReadOptions {
  ForEach for_each;  ///< null: one chunk after the other
  std::string packed_for;  ///< packed weights are read when they are for this
};

/// Reads an artifact and checks all it will read of it; weights stay on disk, mapped. kBadInput names the file and what is wrong
/// with it.
Result<Artifact> Read(const std::string& path, const ReadOptions& options = {});

/// True when the file begins like a `.tenon` file.
bool LooksLikeArtifact(const std::string& path);

}  // namespace tenon::artifact

#endif  // TENON_ARTIFACT_ARTIFACT_H_
