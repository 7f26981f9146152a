// Functions of sixteen floats, over any of the three V.

/// e^x to about one unit in the last place.
static inline V Exp(V x) {
  // Beyond these it is 0 and infinity; farther out the remainder would be no number.
  x = Max(x, Set(-110.0f));
  x = Sub(Zero(), Max(Sub(Zero(), x), Set(-130.0f)));
  const V n = RoundV(Mul(x, Set(1.44269504088896341f)));
  V r = Fma(n, Set(-0.693145751953125f), x);
  r = Fma(n, Set(-1.42860682030941723e-6f), r);
  V p = Set(1.38888892e-3f);
  p = Fma(p, r, Set(8.33333377e-3f));
  p = Fma(p, r, Set(4.16666679e-2f));
  p = Fma(p, r, Set(1.66666672e-1f));
  p = Fma(p, r, Set(0.5f));
  p = Fma(p, r, Set(1.0f));
  p = Fma(p, r, Set(1.0f));
  return Scale2(p, n);
}
static inline V Silu(V x) {
  return Div(x, Add(Set(1.0f), Exp(Sub(Zero(), x))));
}
/// The tanh form: x * sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)).
static inline V Gelu(V x) {
  const V cubic = Fma(Mul(Mul(x, x), x), Set(0.044715f), x);
  return Div(x, Add(Set(1.0f), Exp(Mul(cubic, Set(-1.59576912160573071f)))));
}
