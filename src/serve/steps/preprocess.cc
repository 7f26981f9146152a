// picture -> a model's input: resize, crop, pad, colours, scale, mean, deviation, layout, as media/preprocess.h reads them.
#include "media/preprocess.h"

#include "runtime/host_tensor.h"
#include "serve/steps/step.h"

namespace tenon::serve {
namespace {

class PreprocessStep final : public Step {
 public:
  PreprocessStep(media::Preprocess steps, DType dtype) : steps_(steps), dtype_(dtype) {}

  Result<std::vector<HostTensor>> Run(const std::vector<HostTensor>& inputs, StepContext& context) const override {
    TENON_ASSIGN_OR_RETURN(const media::PictureView view, AsPicture(inputs[0], "picture"));
    TENON_ASSIGN_OR_RETURN(const uint64_t bytes, media::PreparedBytes(view.width, view.height, steps_, dtype_));
    TENON_RETURN_IF_ERROR(context.Take(bytes, "a prepared picture"));
    TENON_ASSIGN_OR_RETURN(const Tensor prepared, media::Prepare(view, steps_, dtype_));
    return std::vector<HostTensor>{runtime::ToHost("", prepared)};
  }

 private:
  media::Preprocess steps_;
  DType dtype_;
};

Result<DType> TypeOf(const std::string& name) {
  if (name == "float32") return DType::kF32;
  if (name == "float16") return DType::kF16;
  if (name == "bfloat16") return DType::kBF16;
  if (name == "uint8") return DType::kU8;
  return BadInput("dtype is '{}'; allowed: float32, float16, bfloat16, uint8", name);
}

}  // namespace

const StepKind& Kind_preprocess() {
  static const StepKind kKind = {"preprocess",
                                 {{"picture", DType::kU8, "height,width,3"}},
                                 {{"x", DType::kUndefined, ""}},
                                 [](Parameters& p) -> Result<std::unique_ptr<Step>> {
                                   TENON_ASSIGN_OR_RETURN(const DType dtype, TypeOf(p.Text("dtype", "float32")));
                                   const std::string rest = p.Rest();
                                   media::Preprocess steps;
                                   if (!rest.empty()) {
                                     TENON_ASSIGN_OR_RETURN(steps, media::ParsePreprocess(rest));
                                   }
                                   return NewStep<PreprocessStep>(steps, dtype);
                                 }};
  return kKind;
}

}  // namespace tenon::serve
