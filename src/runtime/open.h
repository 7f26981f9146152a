// Opening a session on an artifact that is already in memory.
#ifndef TENON_RUNTIME_OPEN_H_
#define TENON_RUNTIME_OPEN_H_

#include "artifact/artifact.h"
#include "tenon/session.h"

namespace tenon::runtime {

Result<std::unique_ptr<Session>> OpenArtifact(artifact::Artifact artifact, const SessionOptions& options);

/// The same for a program alone. Constants that `program` shares with its maker stay readable.
Result<std::unique_ptr<Session>> OpenProgram(artifact::Program program, const SessionOptions& options);

}  // namespace tenon::runtime

#endif  // TENON_RUNTIME_OPEN_H_
