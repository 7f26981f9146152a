// Stockham passes; included into an anonymous namespace by each instruction set's file. `P` is FftPass<T>.
//
// A pass of radix p turns x into y:  y[q + s*(p*j + r)] = w^(j*r) * sum_k x[q + s*(j + k*m)] * exp(-2 pi i k r / p)
// for j < m, r < p, q < s. The innermost loop over q runs over columns too, so it is long and contiguous.

template <typename T>
static inline void Radix2(T* yr, T* yi, const T* xr, const T* xi, int64_t in, int64_t s, const T* c, const T* d) {
  const T wr = c[0], wi = d[0];
#pragma omp simd
  for (int64_t q = 0; q < s; ++q) {
    const T ar = xr[q], ai = xi[q], br = xr[q + in], bi = xi[q + in];
    yr[q] = ar + br;
    yi[q] = ai + bi;
    const T tr = ar - br, ti = ai - bi;
    yr[q + s] = tr * wr - ti * wi;
    yi[q + s] = tr * wi + ti * wr;
  }
}

template <typename T>
static inline void Radix3(T* yr, T* yi, const T* xr, const T* xi, int64_t in, int64_t s, const T* c, const T* d) {
  const T w1r = c[0], w1i = d[0], w2r = c[1], w2i = d[1];
  const T h = static_cast<T>(0.5), sine = static_cast<T>(0.86602540378443864676);
#pragma omp simd
  for (int64_t q = 0; q < s; ++q) {
    const T ar = xr[q], ai = xi[q];
    const T pr = xr[q + in] + xr[q + 2 * in], pi = xi[q + in] + xi[q + 2 * in];
    const T mr = (xr[q + in] - xr[q + 2 * in]) * sine, mi = (xi[q + in] - xi[q + 2 * in]) * sine;
    yr[q] = ar + pr;
    yi[q] = ai + pi;
    const T br = ar - h * pr, bi = ai - h * pi;
    const T ur = br + mi, ui = bi - mr, vr = br - mi, vi = bi + mr;
    yr[q + s] = ur * w1r - ui * w1i;
    yi[q + s] = ur * w1i + ui * w1r;
    yr[q + 2 * s] = vr * w2r - vi * w2i;
    yi[q + 2 * s] = vr * w2i + vi * w2r;
  }
}

template <typename T>
static inline void Radix4(T* yr, T* yi, const T* xr, const T* xi, int64_t in, int64_t s, const T* c, const T* d) {
  const T w1r = c[0], w1i = d[0], w2r = c[1], w2i = d[1], w3r = c[2], w3i = d[2];
#pragma omp simd
  for (int64_t q = 0; q < s; ++q) {
    const T ar = xr[q] + xr[q + 2 * in], ai = xi[q] + xi[q + 2 * in];
    const T br = xr[q] - xr[q + 2 * in], bi = xi[q] - xi[q + 2 * in];
    const T cr = xr[q + in] + xr[q + 3 * in], ci = xi[q + in] + xi[q + 3 * in];
    const T dr = xr[q + in] - xr[q + 3 * in], di = xi[q + in] - xi[q + 3 * in];
    yr[q] = ar + cr;
    yi[q] = ai + ci;
    const T ur = br + di, ui = bi - dr, vr = ar - cr, vi = ai - ci, zr = br - di, zi = bi + dr;
    yr[q + s] = ur * w1r - ui * w1i;
    yi[q + s] = ur * w1i + ui * w1r;
    yr[q + 2 * s] = vr * w2r - vi * w2i;
    yi[q + 2 * s] = vr * w2i + vi * w2r;
    yr[q + 3 * s] = zr * w3r - zi * w3i;
    yi[q + 3 * s] = zr * w3i + zi * w3r;
  }
}

template <typename T>
static inline void Radix5(T* yr, T* yi, const T* xr, const T* xi, int64_t in, int64_t s, const T* c, const T* d) {
  const T c1 = static_cast<T>(0.30901699437494742410), c2 = static_cast<T>(-0.80901699437494742410);
  const T s1 = static_cast<T>(0.95105651629515357212), s2 = static_cast<T>(0.58778525229247312917);
#pragma omp simd
  for (int64_t q = 0; q < s; ++q) {
    const T ar = xr[q], ai = xi[q];
    const T pr = xr[q + in] + xr[q + 4 * in], pi = xi[q + in] + xi[q + 4 * in];
    const T mr = xr[q + in] - xr[q + 4 * in], mi = xi[q + in] - xi[q + 4 * in];
    const T tr = xr[q + 2 * in] + xr[q + 3 * in], ti = xi[q + 2 * in] + xi[q + 3 * in];
    const T nr = xr[q + 2 * in] - xr[q + 3 * in], ni = xi[q + 2 * in] - xi[q + 3 * in];
    yr[q] = ar + pr + tr;
    yi[q] = ai + pi + ti;
    const T e1r = ar + c1 * pr + c2 * tr, e1i = ai + c1 * pi + c2 * ti;
    const T e2r = ar + c2 * pr + c1 * tr, e2i = ai + c2 * pi + c1 * ti;
    const T o1r = s1 * mr + s2 * nr, o1i = s1 * mi + s2 * ni;
    const T o2r = s2 * mr - s1 * nr, o2i = s2 * mi - s1 * ni;
    const T b1r = e1r + o1i, b1i = e1i - o1r, b4r = e1r - o1i, b4i = e1i + o1r;
    const T b2r = e2r + o2i, b2i = e2i - o2r, b3r = e2r - o2i, b3i = e2i + o2r;
    yr[q + s] = b1r * c[0] - b1i * d[0];
    yi[q + s] = b1r * d[0] + b1i * c[0];
    yr[q + 2 * s] = b2r * c[1] - b2i * d[1];
    yi[q + 2 * s] = b2r * d[1] + b2i * c[1];
    yr[q + 3 * s] = b3r * c[2] - b3i * d[2];
    yi[q + 3 * s] = b3r * d[2] + b3i * c[2];
    yr[q + 4 * s] = b4r * c[3] - b4i * d[3];
    yi[q + 4 * s] = b4r * d[3] + b4i * c[3];
  }
}

template <typename T, typename P>
static inline void RadixAny(T* yr, T* yi, const T* xr, const T* xi, int64_t in, int64_t s, const T* c, const T* d, const P& p) {
  for (int r = 0; r < p.radix; ++r) {
    const T wr = r == 0 ? T{1} : c[r - 1], wi = r == 0 ? T{0} : d[r - 1];
    const T* rc = p.root_cos;
    const T* rs = p.root_sin;
#pragma omp simd
    for (int64_t q = 0; q < s; ++q) {
      T ur = xr[q], ui = xi[q];
      int at = 0;
      for (int k = 1; k < p.radix; ++k) {
        at += r;
        at -= at >= p.radix ? p.radix : 0;
        const T ar = xr[q + k * in], ai = xi[q + k * in];
        ur += ar * rc[at] - ai * rs[at];
        ui += ar * rs[at] + ai * rc[at];
      }
      yr[q + r * s] = ur * wr - ui * wi;
      yi[q + r * s] = ur * wi + ui * wr;
    }
  }
}

template <typename T, typename P>
static bool RunPasses(const P* passes, int count, int64_t columns, T* re, T* im, T* re2, T* im2) {
  bool swapped = false;
  for (int i = 0; i < count; ++i) {
    const P& p = passes[i];
    const T* xr = swapped ? re2 : re;
    const T* xi = swapped ? im2 : im;
    T* yr = swapped ? re : re2;
    T* yi = swapped ? im : im2;
    const int64_t s = p.s * columns;
    const int64_t in = s * p.m;
    for (int64_t j = 0; j < p.m; ++j) {
      const T* c = p.cos + j * (p.radix - 1);
      const T* d = p.sin + j * (p.radix - 1);
      T* const yrj = yr + s * p.radix * j;
      T* const yij = yi + s * p.radix * j;
      switch (p.radix) {
        case 2: Radix2(yrj, yij, xr + s * j, xi + s * j, in, s, c, d); break;
        case 3: Radix3(yrj, yij, xr + s * j, xi + s * j, in, s, c, d); break;
        case 4: Radix4(yrj, yij, xr + s * j, xi + s * j, in, s, c, d); break;
        case 5: Radix5(yrj, yij, xr + s * j, xi + s * j, in, s, c, d); break;
        default: RadixAny(yrj, yij, xr + s * j, xi + s * j, in, s, c, d, p); break;
      }
    }
    swapped = !swapped;
  }
  return swapped;
}
