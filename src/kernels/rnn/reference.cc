// Plain recurrent cells for every float type: one row, one step, one gate at a time, in double (the oracle).
#include "kernels/rnn/rnn.h"

namespace tenon::kernels::rnn {
namespace {

// One direction of one batch row. Weights are read in the model's type.
template <typename T>
class RowCell {
 public:
  RowCell(const Params& p, const Extents& e, int dir, std::span<const View> in)
      : p_(p), e_(e), act_(&p.activations[static_cast<size_t>(dir * p.functions)]) {
    const int64_t gh = p.gates * e.hidden;
    w_ = in[1].Data<T>() + dir * gh * e.in;
    r_ = in[2].Data<T>() + dir * gh * e.hidden;
    if (in.size() > 3 && in[3].present()) b_ = in[3].Data<T>() + dir * 2 * gh;
    if (in.size() > 7 && in[7].present()) peep_ = in[7].Data<T>() + dir * 3 * e.hidden;
  }

  std::vector<double> h, c;

  void Step(const T* x) {
    std::vector<double> next(h.size());
    switch (p_.cell) {
      case Cell::kRnn:
        for (int64_t j = 0; j < e_.hidden; ++j) next[U(j)] = Act(0, X(x, 0, j) + R(h, 0, j));
        break;
      case Cell::kGru: Gru(x, &next); break;
      case Cell::kLstm: Lstm(x, &next); break;
    }
    h = next;
  }

 private:
  static size_t U(int64_t i) { return static_cast<size_t>(i); }
  static double D(T v) {
    return static_cast<double>(static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(v));
  }

  double X(const T* x, int gate, int64_t j) const {
    const T* w = w_ + (gate * e_.hidden + j) * e_.in;
    double sum = b_ != nullptr ? D(b_[gate * e_.hidden + j]) : 0;
    for (int64_t k = 0; k < e_.in; ++k) sum += D(x[k]) * D(w[k]);
    return sum;
  }
  double R(const std::vector<double>& h, int gate, int64_t j) const {
    const T* r = r_ + (gate * e_.hidden + j) * e_.hidden;
    double sum = b_ != nullptr ? D(b_[(p_.gates + gate) * e_.hidden + j]) : 0;
    for (int64_t k = 0; k < e_.hidden; ++k) sum += h[U(k)] * D(r[k]);
    return sum;
  }
  double Peep(int gate, int64_t j) const { return peep_ != nullptr ? D(peep_[gate * e_.hidden + j]) : 0; }
  double Act(int which, double v) const {
    const double clip = p_.clip;
    return Activate(act_[which], v > clip ? clip : v < -clip ? -clip : v);
  }

  void Gru(const T* x, std::vector<double>* next) const {
    std::vector<double> reset(h.size());
    std::vector<double> scaled(h.size());
    for (int64_t j = 0; j < e_.hidden; ++j) {
      reset[U(j)] = Act(0, X(x, 1, j) + R(h, 1, j));
      scaled[U(j)] = reset[U(j)] * h[U(j)];
    }
    for (int64_t j = 0; j < e_.hidden; ++j) {
      const double z = Act(0, X(x, 0, j) + R(h, 0, j));
      const double recurrent = p_.linear_before_reset ? reset[U(j)] * R(h, 2, j) : R(scaled, 2, j);
      const double n = Act(1, X(x, 2, j) + recurrent);
      (*next)[U(j)] = (1 - z) * n + z * h[U(j)];
    }
  }

  void Lstm(const T* x, std::vector<double>* next) {
    for (int64_t j = 0; j < e_.hidden; ++j) {
      const double old = c[U(j)];
      const double i = Act(0, X(x, 0, j) + R(h, 0, j) + Peep(0, j) * old);
      const double f = p_.input_forget ? 1 - i : Act(0, X(x, 2, j) + R(h, 2, j) + Peep(2, j) * old);
      const double g = Act(1, X(x, 3, j) + R(h, 3, j));
      const double cell = f * old + i * g;
      const double o = Act(0, X(x, 1, j) + R(h, 1, j) + Peep(1, j) * cell);
      c[U(j)] = cell;
      (*next)[U(j)] = o * Act(2, cell);
    }
  }

  const Params& p_;
  const Extents& e_;
  const Activation* act_;
  const T* w_ = nullptr;
  const T* r_ = nullptr;
  const T* b_ = nullptr;
  const T* peep_ = nullptr;
};

template <typename T>
T FromDouble(double v) {
  if constexpr (std::is_same_v<T, double>)
    return v;
  else
    return T(static_cast<float>(v));
}

template <typename T>
std::vector<double> State(const View& v, int64_t offset, int64_t n) {
  std::vector<double> out(static_cast<size_t>(n), 0.0);
  if (!v.present()) return out;
  for (int64_t i = 0; i < n; ++i) {
    const T raw = v.Data<T>()[offset + i];
    if constexpr (std::is_same_v<T, double>)
      out[static_cast<size_t>(i)] = raw;
    else
      out[static_cast<size_t>(i)] = static_cast<float>(raw);
  }
  return out;
}

template <typename T>
void Store(const std::vector<double>& v, T* to) {
  for (size_t i = 0; i < v.size(); ++i) to[i] = FromDouble<T>(v[i]);
}

template <typename T>
void RunAll(const Params& p, const RunArgs& args) {
  const Extents e = ExtentsOf(p, args.in[0].shape, args.in[2].shape);
  const Offsets o = OffsetsOf(p, e);
  const auto in = [&](size_t i) { return args.Has(i) ? args.in[i] : View{}; };
  const auto out = [&](size_t i) -> T* {
    return i < args.out.size() && args.out[i].present() ? args.out[i].template Data<T>() : nullptr;
  };
  T* const y = out(0);
  for (int d = 0; d < p.dirs; ++d) {
    for (int64_t b = 0; b < e.batch; ++b) {
      RowCell<T> cell(p, e, d, args.in);
      cell.h = State<T>(in(5), d * o.s_d + b * o.s_b, e.hidden);
      cell.c = State<T>(in(6), d * o.s_d + b * o.s_b, e.hidden);
      const int64_t length = args.Has(4) ? args.in[4].Data<int32_t>()[b] : e.seq;
      for (int64_t s = 0; s < e.seq; ++s) {
        const int64_t t = s < length && p.reverse[d] ? length - 1 - s : s;
        if (s < length) cell.Step(args.in[0].Data<T>() + t * o.x_t + b * o.x_b);
        if (y == nullptr) continue;
        Store<T>(s < length ? cell.h : std::vector<double>(cell.h.size(), 0.0), y + t * o.y_t + d * o.y_d + b * o.y_b);
      }
      if (T* yh = out(1)) Store<T>(cell.h, yh + d * o.s_d + b * o.s_b);
      if (T* yc = out(2)) Store<T>(cell.c, yc + d * o.s_d + b * o.s_b);
    }
  }
}

class Reference final : public Kernel {
 public:
  explicit Reference(Params p) : p_(p) {}
  Status Run(const RunArgs& args) const override {
    const int64_t seq = args.in[0].shape[p_.batch_first ? 1 : 0];
    TENON_RETURN_IF_ERROR(CheckLengths(args.Has(4) ? args.in[4] : View{}, seq));
    const bool known =
        DispatchDType<TENON_FLOAT_TYPES>(args.in[0].dtype, [&](auto tag) { RunAll<typename decltype(tag)::type>(p_, args); });
    return known ? Status::Ok() : Unsupported("element type {} of X", DTypeName(args.in[0].dtype));
  }

 private:
  Params p_;
};

}  // namespace

Result<std::unique_ptr<Kernel>> MakeReference(const Problem& problem) {
  TENON_ASSIGN_OR_RETURN(const Params p, ParseParams(problem.op, problem.attrs));
  return std::unique_ptr<Kernel>(new Reference(p));
}

}  // namespace tenon::kernels::rnn
