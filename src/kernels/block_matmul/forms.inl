// How codes of weights lie, as a template argument: for inner functions that are compiled for each.
enum Form { kPlain, kTable, kFive, kSix, kByte };

// Calls f.operator()<Form>().
template <typename F>
void WithFormOf(const Layout& layout, const F& f) {
  switch (layout.codes) {
    case Codes::kBytes: return f.template operator()<kByte>();
    case Codes::kFive: return f.template operator()<kFive>();
    case Codes::kSix: return f.template operator()<kSix>();
    default: return layout.table != nullptr ? f.template operator()<kTable>() : f.template operator()<kPlain>();
  }
}
