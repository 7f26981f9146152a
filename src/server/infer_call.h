// An inference request of the KServe protocol beyond its tensors: how each output is wanted.
#ifndef TENON_SERVER_INFER_CALL_H_
#define TENON_SERVER_INFER_CALL_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/transport/http.h"
#include "tenon/server.h"

namespace tenon::server {

class SharedMemory;

/// A part of a region of shared memory.
struct RegionPart {
  std::string region;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

struct OutputWish {
  bool binary = false;
  int64_t classes = 0;             ///< > 0: the best so many as texts "value:index[:label]"
  RegionPart region;               ///< where it goes; no name: into the answer
};

struct InferCall {
  InferRequest request;
  std::map<std::string, OutputWish> wishes;
  bool binary_default = false;
  /// The wish for an output, or the default.
  OutputWish WishFor(const std::string& output) const;
};

/// Reads the JSON part of `body` and the tensors after it. Tensors point into `body`, which they keep alive, where their place
/// allows it. kUsage names what is wrong, expected and given; kResourceLimit: over a limit.
Result<InferCall> ReadInferCall(const std::shared_ptr<HttpRequest>& request, const SharedMemory& regions);

/// Whether `outputs` can be answered as wished. kResourceLimit when the answer would be over `limit` bytes; kUsage when a type
/// has no form in JSON or a region is too small.
Status CheckInferResponse(const InferCall& call, const std::vector<HostTensor>& outputs, const SharedMemory& regions,
                          uint64_t limit);

/// The answer's body, with the header and type that go with it.
Result<HttpResponse> WriteInferResponse(const InferCall& call, InferResponse response, const SharedMemory& regions);
/// {"model_name", "model_version", "id"?, and each output by its name: one element as it is, several as a flat list}.
Result<HttpResponse> WriteGenerateResponse(const InferCall& call, InferResponse response, const SharedMemory& regions);

/// The `classes` largest of each row as "value:index[:label]".
Result<HostTensor> Classify(const HostTensor& output, int64_t classes, const std::vector<std::string>& labels);

/// `input` reads from, or `output` is copied into, a region.
Result<HostTensor> FromRegion(const SharedMemory& regions, const RegionPart& part, HostTensor tensor, int64_t elements);
Status ToRegion(const SharedMemory& regions, const RegionPart& part, const HostTensor& tensor);

}  // namespace tenon::server

#endif  // TENON_SERVER_INFER_CALL_H_
