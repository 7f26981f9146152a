// Opening a session on an artifact that is already in memory.
#ifndef TENON_RUNTIME_OPEN_H_
#define TENON_RUNTIME_OPEN_H_

#include "artifact/artifact.h"
#include "tenon/session.h"

namespace tenon::kernels {
struct KvStep;   // kernels/kv_step.h
}

namespace tenon::runtime {

Result<std::unique_ptr<Session>> OpenArtifact(artifact::Artifact artifact, const SessionOptions& options);

/// The same for a program alone. Constants that `program` shares with its maker stay readable.
Result<std::unique_ptr<Session>> OpenProgram(artifact::Program program, const SessionOptions& options);

/// What the kernels of the next runs of `session` (from this library) are told of sequences and their cache; null: nothing. The
/// step, and what it points to, must outlive those runs.
void BindKv(Session& session, const kernels::KvStep* kv);

}  // namespace tenon::runtime

#endif  // TENON_RUNTIME_OPEN_H_
