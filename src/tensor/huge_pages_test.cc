#include "tensor/huge_pages.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

namespace tenon {
namespace {

TEST(HugePages, PiecesAreAlignedAndApart) {
  std::vector<std::shared_ptr<Buffer>> pieces;
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{100}, size_t{5} << 20, size_t{4} << 20, size_t{9} << 20, size_t{64}}) {
    pieces.push_back(AllocateOnHugePages(bytes));
    ASSERT_NE(pieces.back(), nullptr);
    ASSERT_EQ(pieces.back()->bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pieces.back()->data()) % 64, 0u);
    std::memset(pieces.back()->data(), static_cast<int>(pieces.size()), bytes);
  }
  pieces[3].reset();   // the others of its region stay
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i] == nullptr) continue;
    const auto* p = static_cast<const uint8_t*>(pieces[i]->data());
    for (size_t at = 0; at < pieces[i]->bytes(); ++at) ASSERT_EQ(p[at], i + 1) << "piece " << i;
  }
}

TEST(HugePages, RefusesWhatNoMachineHas) {
  EXPECT_EQ(AllocateOnHugePages(~size_t{0}), nullptr);
  EXPECT_EQ(AllocateOnHugePages(size_t{1} << 62), nullptr);
}

TEST(HugePages, ManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 200; ++i) {
        const auto piece = AllocateOnHugePages(100'000);
        ASSERT_NE(piece, nullptr);
        std::memset(piece->data(), t, piece->bytes());
        ASSERT_EQ(static_cast<const uint8_t*>(piece->data())[99'999], t);
      }
    });
  }
  for (auto& t : threads) t.join();
}

}  // namespace
}  // namespace tenon
