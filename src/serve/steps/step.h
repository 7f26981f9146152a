// Built-in steps of ensembles: small functions on tensors, set up once from a few parameters and run by many threads.
#ifndef TENON_SERVE_STEPS_STEP_H_
#define TENON_SERVE_STEPS_STEP_H_

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "media/warp.h"
#include "tenon/session.h"

namespace tenon::serve {

/// What a step takes or gives. A list is one tensor for each of several things of different size.
struct Port {
  std::string_view name;
  DType dtype = DType::kUndefined;   ///< kUndefined: any
  std::string_view dims;             ///< "n,4,2"
  bool list = false;
  bool optional = false;
};

/// What a run may use.
struct StepContext {
  uint64_t bytes_left = UINT64_MAX;                         ///< for results; taking more is kResourceLimit
  std::function<Status()> poll = [] { return Status::Ok(); };   ///< kCancelled: stop
  /// Takes `bytes` off; kResourceLimit when there are not so many.
  Status Take(uint64_t bytes, const char* what);
};

class Step {
 public:
  virtual ~Step() = default;
  /// `inputs` in the order of the kind's ports; an absent optional one has no name. Types are right, extents are not checked.
  /// Results in the order of its output ports, without names.
  virtual Result<std::vector<HostTensor>> Run(const std::vector<HostTensor>& inputs, StepContext& context) const = 0;
};

template <typename T, typename... Args>
Result<std::unique_ptr<Step>> NewStep(Args&&... args) {
  return std::unique_ptr<Step>(new T(std::forward<Args>(args)...));
}

class Parameters;

struct StepKind {
  std::string_view name;
  std::vector<Port> inputs, outputs;
  /// kBadInput names the parameter.
  Result<std::unique_ptr<Step>> (*make)(Parameters& parameters) = nullptr;
};

/// null: no such kind.
const StepKind* FindStepKind(std::string_view name);
/// All kinds, for messages.
std::string StepKindNames();

/// Sets a step up; `metadata` is of the model it names. kBadInput names an unknown or wrong parameter.
Result<std::unique_ptr<Step>> MakeStep(const StepKind& kind, const std::map<std::string, std::string>& parameters,
                                       const std::map<std::string, std::string>& metadata);

/// Reads parameters, each once; what nobody asked for is an error.
class Parameters {
 public:
  /// `metadata`: of the model that the step was given by its parameter `model`.
  Parameters(std::map<std::string, std::string> values, std::map<std::string, std::string> metadata)
      : values_(std::move(values)), metadata_(std::move(metadata)) {}
  double Number(const std::string& name, double fallback, double least, double most);
  int Integer(const std::string& name, int fallback, int least, int most);
  bool Flag(const std::string& name, bool fallback);
  std::string Text(const std::string& name, const std::string& fallback);
  /// All that is left, as lines "name: value".
  std::string Rest();
  /// Lines of the file that the parameter names; none when it is not given.
  std::vector<std::string> Lines(const std::string& name);
  /// Metadata of a model that the step was given ("character"); empty when there is none.
  std::string Metadata(const std::string& key) const;
  /// The first thing that was wrong.
  Status Finish() const;

 private:
  void Fail(Status status);
  const std::string* Take(const std::string& name);
  std::map<std::string, std::string> values_;
  std::map<std::string, std::string> metadata_;
  std::string known_;
  Status status_;
};

/// A tensor of zeros that owns its memory.
Result<HostTensor> NewTensor(DType dtype, std::vector<int64_t> shape, StepContext& context);
/// [height, width, 3] of bytes; no copy.
Result<HostTensor> FromPicture(Picture picture, StepContext& context);
/// kUsage: not [height, width, 3] of bytes, or an empty one.
Result<media::PictureView> AsPicture(const HostTensor& tensor, const char* what);
HostTensor FromStrings(std::vector<std::string> strings);
HostTensor FromList(std::vector<HostTensor> list);
/// The elements of a list, or the tensor alone.
std::span<const HostTensor> AsList(const HostTensor& tensor);

template <typename T>
const T* Data(const HostTensor& t) {
  return static_cast<const T*>(t.data);
}
template <typename T>
T* MutableData(HostTensor& t) {
  return static_cast<T*>(const_cast<void*>(t.data));   // NewTensor's memory is ours
}

/// kUsage names `what` when the shape is another; -1 stands for any extent.
Status ExpectShape(const HostTensor& t, const std::vector<int64_t>& shape, const char* what);

}  // namespace tenon::serve

#endif  // TENON_SERVE_STEPS_STEP_H_
