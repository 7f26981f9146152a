// Dense kernels side by side with oneDNN on the layers of real models: bench_dense PROBLEMS.txt [threads] [row suffix]
// [f32|bf16]. Both sides have constant packed weights, a Relu in the epilogue and the layout they like best; rounds are
// interleaved and the fastest round counts, so that on a shared machine the ratio means something.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

#include <dnnl.hpp>

#include "kernels/kernel.h"

namespace {

using namespace tenon;

// Type of input, weights and result; biases are f32.
DType type = DType::kF32;

// One thread: its processor time, which a busy machine disturbs least. More: the wall clock.
bool use_cpu_time = false;
double Now() {
  timespec t;
  clock_gettime(use_cpu_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Problem {
  bool conv = false;
  int64_t n = 1, c = 0, h = 1, w = 1, oc = 0, kh = 1, kw = 1, sh = 1, sw = 1, ph = 0, pw = 0, group = 1, count = 1;
  int64_t oh() const { return (h + 2 * ph - kh) / sh + 1; }
  int64_t ow() const { return (w + 2 * pw - kw) / sw + 1; }
  double flop() const { return 2.0 * n * oh() * ow() * oc * (c / group) * kh * kw; }
};

std::vector<Problem> Read(const std::string& file) {
  std::vector<Problem> problems;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream s(line);
    std::string kind;
    Problem p;
    s >> kind;
    if (kind == "conv") {
      p.conv = true;
      s >> p.n >> p.c >> p.h >> p.w >> p.oc >> p.kh >> p.kw >> p.sh >> p.sw >> p.ph >> p.pw >> p.group >> p.count;
    } else if (kind == "matmul") {
      s >> p.n >> p.oc >> p.c >> p.count;
    } else {
      continue;
    }
    problems.push_back(p);
  }
  return problems;
}

Tensor Filled(const Shape& shape, DType dtype) {
  Tensor t = *Tensor::Allocate(dtype, shape);
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    const float v = static_cast<float>(i % 7) - 3;
    if (dtype == DType::kBF16) {
      t.MutableData<BFloat16>()[i] = BFloat16(v);
    } else {
      t.MutableData<float>()[i] = v;
    }
  }
  return t;
}

// One prepared call of the preferred row (or the first whose name ends in `suffix`).
class Ours {
 public:
  Ours(const Problem& p, hw::Team& team, const std::string& suffix) : team_(team) {
    attrs_.Set("activation", std::string("Relu"));
    if (p.conv) {
      attrs_.Set("data_layout", std::string("NHWC"));
      attrs_.Set("pads", std::vector<int64_t>{p.ph, p.pw, p.ph, p.pw});
      attrs_.Set("strides", std::vector<int64_t>{p.sh, p.sw});
      attrs_.Set("group", p.group);
      tensors_ = {Filled({p.n, p.h, p.w, p.c}, type), Filled({p.oc, p.c / p.group, p.kh, p.kw}, type),
                  Filled({p.oc}, DType::kF32)};
    } else {
      tensors_ = {Filled({p.n, p.c}, type), Filled({p.c, p.oc}, type), Filled({p.oc}, DType::kF32)};
    }
    const char* op = p.conv ? "FusedConv" : "FusedMatMul";
    for (const Tensor& t : tensors_) views_.push_back(t.view());
    std::vector<kernels::ValueInfo> in(3), out(1);
    for (size_t i = 0; i < 3; ++i)
      in[i] = {tensors_[i].dtype(), true, false, tensors_[i].shape(), i == 0 ? nullptr : &views_[i], {}};
    out[0].present = true;
    CHECK(kernels::InferShapes(op, {attrs_, in, out}).ok());
    const kernels::Problem problem{op, attrs_, in, out, hw::DetectIsa(), team.size()};
    std::string name;
    for (const kernels::Row& row : kernels::FindOp(op)->rows) {
      if (!suffix.empty() && !row.name.ends_with(suffix)) continue;
      if (row.can == nullptr || row.can(problem) == nullptr) {
        name = row.name;
        break;
      }
    }
    kernel_ = std::move(kernels::ChooseRow(problem, name)->row->make(problem)).value();
    y_ = *Tensor::Allocate(type, *out[0].shape.ToShape());
    out_ = y_.mutable_view();
    const View y = out_;
    configured_ = std::move(kernel_->Configure(views_, {&y, 1})).value();
    scratch_ = Buffer::Allocate(configured_.scratch_bytes);
  }
  void Run() {
    const kernels::RunArgs args{views_, {&out_, 1}, configured_.state.get(), static_cast<std::byte*>(scratch_->data()),
                                team_,  nullptr};
    CHECK(kernel_->Run(args).ok());
  }

 private:
  Attrs attrs_;
  hw::Team& team_;
  std::vector<Tensor> tensors_;
  std::vector<View> views_;
  std::unique_ptr<kernels::Kernel> kernel_;
  kernels::Configured configured_;
  std::shared_ptr<Buffer> scratch_;
  Tensor y_;
  MutView out_;
};

class Dnnl {
 public:
  explicit Dnnl(const Problem& p) : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    using dnnl::memory;
    const auto f32 = memory::data_type::f32;
    const auto data = type == DType::kBF16 ? memory::data_type::bf16 : f32;
    const auto any = memory::format_tag::any;
    dnnl::primitive_attr attr;
    dnnl::post_ops ops;
    ops.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
    attr.set_post_ops(ops);
    if (p.conv) {
      const memory::dims w =
          p.group == 1 ? memory::dims{p.oc, p.c, p.kh, p.kw} : memory::dims{p.group, p.oc / p.group, p.c / p.group, p.kh, p.kw};
      dnnl::convolution_forward::desc d(dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
                                        {{p.n, p.c, p.h, p.w}, data, any}, {w, data, any}, {{p.oc}, f32, any},
                                        {{p.n, p.oc, p.oh(), p.ow()}, data, any}, {p.sh, p.sw}, {p.ph, p.pw}, {p.ph, p.pw});
      dnnl::convolution_forward::primitive_desc pd(d, attr, engine_);
      Bind(pd.src_desc(), pd.weights_desc(), pd.bias_desc(), pd.dst_desc());
      primitive_ = dnnl::convolution_forward(pd);
    } else {
      dnnl::inner_product_forward::desc d(dnnl::prop_kind::forward_inference, {{p.n, p.c}, f32, any}, {{p.oc, p.c}, f32, any},
                                          {{p.oc}, f32, any}, {{p.n, p.oc}, f32, any});
      dnnl::inner_product_forward::primitive_desc pd(d, attr, engine_);
      Bind(pd.src_desc(), pd.weights_desc(), pd.bias_desc(), pd.dst_desc());
      primitive_ = dnnl::inner_product_forward(pd);
    }
  }
  void Run() {
    primitive_.execute(stream_, args_);
    stream_.wait();
  }

 private:
  void Bind(const dnnl::memory::desc& x, const dnnl::memory::desc& w, const dnnl::memory::desc& b, const dnnl::memory::desc& y) {
    const std::pair<int, const dnnl::memory::desc*> all[] = {
        {DNNL_ARG_SRC, &x}, {DNNL_ARG_WEIGHTS, &w}, {DNNL_ARG_BIAS, &b}, {DNNL_ARG_DST, &y}};
    for (const auto& [id, desc] : all) {
      dnnl::memory m(*desc, engine_);
      std::memset(m.get_data_handle(), 0, desc->get_size());
      args_.emplace(id, m);
    }
  }
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::primitive primitive_;
  std::unordered_map<int, dnnl::memory> args_;
};

// Repeats so that a round takes about a millisecond; returns seconds a call of the fastest round.
struct Timer {
  std::function<void()> run;
  int repeats = 1;
  double best = 1e9;
  void Calibrate() {
    run();
    const double start = Now();
    run();
    const double t = std::max(1e-7, Now() - start);
    repeats = static_cast<int>(std::clamp(1e-3 / t, 1.0, 1000.0));
  }
  void Round() {
    const double start = Now();
    for (int i = 0; i < repeats; ++i) run();
    best = std::min(best, (Now() - start) / repeats);
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "bench_dense PROBLEMS.txt [threads] [row suffix] [f32|bf16]\n");
    return 2;
  }
  const int threads = argc > 2 ? std::atoi(argv[2]) : 1;
  const std::string suffix = argc > 3 ? argv[3] : "";
  if (argc > 4 && std::string(argv[4]) == "bf16") type = DType::kBF16;
  use_cpu_time = threads == 1;
  setenv("OMP_NUM_THREADS", std::to_string(threads).c_str(), 1);
  hw::Team team(threads);
  team.Enter();
  double ours_total = 0;
  double dnnl_total = 0;
  double flop_total = 0;
  std::printf("%-58s %9s %9s %9s %7s\n", "problem", "GFLOP/s", "oneDNN", "us", "ratio");
  for (const Problem& p : Read(argv[1])) {
    Ours ours(p, team, suffix);
    Dnnl dnnl(p);
    Timer a{[&] { ours.Run(); }};
    Timer b{[&] { dnnl.Run(); }};
    a.Calibrate();
    b.Calibrate();
    const int rounds = 40;
    for (int i = 0; i < rounds; ++i) {
      a.Round();
      b.Round();
    }
    const std::string name = p.conv ? fmt::format("conv c{} {}x{} oc{} k{}x{} s{}x{} g{} (x{})", p.c, p.h, p.w, p.oc, p.kh, p.kw,
                                                  p.sh, p.sw, p.group, p.count)
                                    : fmt::format("matmul m{} n{} k{} (x{})", p.n, p.oc, p.c, p.count);
    std::printf("%-58s %9.1f %9.1f %9.1f %7.2f\n", name.c_str(), p.flop() / a.best / 1e9, p.flop() / b.best / 1e9, a.best * 1e6,
                b.best / a.best);
    std::fflush(stdout);
    ours_total += a.best * static_cast<double>(p.count);
    dnnl_total += b.best * static_cast<double>(p.count);
    flop_total += p.flop() * static_cast<double>(p.count);
  }
  std::printf("total: %.2f ms (%.1f GFLOP/s), oneDNN %.2f ms, ratio %.2f\n", ours_total * 1e3, flop_total / ours_total / 1e9,
              dnnl_total * 1e3, dnnl_total / ours_total);
  return 0;
}
