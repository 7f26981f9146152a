// Scales and minima of a group, block by block in order. Included after v16/*.inl.
class Factors {
 public:
  Factors(const uint8_t* group, const Layout& layout, int64_t blocks)
      : scales_(layout.scales),
        has_min_(layout.has_min),
        halves_(layout.halves),
        scale_at_(layout.code_bytes()),
        min_at_(layout.code_bytes() + layout.scale_bytes()),
        supers_(reinterpret_cast<const uint16_t*>(group + blocks * layout.block_bytes())),
        super_(Zero()),
        super_min_(Zero()) {}

  // Before the scales of block b, which lies at w.
  void Next(int64_t b, const uint8_t* w) {
    block_ = w;
    if (scales_ != Scales::kBytes || b % kBlocksOfSuper != 0) return;
    super_ = LoadH(supers_), supers_ += 16;
    if (has_min_) super_min_ = LoadH(supers_), supers_ += 16;
  }

  // Of the first or the last 16 elements of the block.
  V Scale(int half) const { return At(block_ + scale_at_, half, super_); }
  V Min(int half) const { return has_min_ ? At(block_ + min_at_, half, super_min_) : Zero(); }

 private:
  V At(const uint8_t* p, int half, V super) const {
    const int i = halves_ ? half * 16 : 0;
    switch (scales_) {
      case Scales::kF16: return LoadH(reinterpret_cast<const uint16_t*>(p) + i);
      case Scales::kF32: return Load(reinterpret_cast<const float*>(p) + i);
      default: return Mul(LoadI8(reinterpret_cast<const int8_t*>(p) + i), super);
    }
  }

  Scales scales_;
  bool has_min_, halves_;
  int64_t scale_at_, min_at_;
  const uint8_t* block_ = nullptr;
  const uint16_t* supers_;
  V super_, super_min_;
};
