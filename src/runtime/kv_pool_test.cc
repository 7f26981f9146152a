#include "runtime/kv_pool.h"

#include <gtest/gtest.h>

namespace tenon::runtime {
namespace {

using Metadata = std::map<std::string, std::string>;

TEST(KvPool, BytesOfATokenAreThoseOfItsType) {
  for (const auto& [type, bytes] :
       std::map<std::string, int64_t>{{"f16", 23040}, {"bf16", 23040}, {"f32", 46080}, {"q8_0", 12240}}) {
    const auto shape =
        KvShapeOf({{"tenon.layers", "30"}, {"tenon.kv_heads", "3"}, {"tenon.head_dim", "64"}, {"tenon.kv_cache", type}});
    ASSERT_TRUE(shape.ok()) << shape.status().message();
    EXPECT_EQ(shape->token_bytes(), bytes) << type;
    EXPECT_EQ(KvTypeName(shape->type), type);
  }
}

TEST(KvPool, MetadataThatAreNoneOfADecoder) {
  const Metadata good = {{"tenon.layers", "2"}, {"tenon.kv_heads", "1"}, {"tenon.head_dim", "48"}};
  EXPECT_EQ(KvShapeOf(good)->type, kernels::KvType::kF16);   // of artifacts that say nothing of it
  for (const auto& [key, value] : {std::pair("tenon.kv_cache", "q4_0"),
                                   {"tenon.kv_cache", ""},
                                   {"tenon.kv_cache", "q8_0"},
                                   {"tenon.layers", "0"},
                                   {"tenon.head_dim", "65537"},
                                   {"tenon.kv_heads", "1x"},
                                   {"tenon.layers", "99999999999999999999"}}) {
    Metadata bad = good;
    bad[key] = value;
    EXPECT_EQ(KvShapeOf(bad).status().code(), Code::kBadInput) << key << " " << value;
  }
}

TEST(KvPool, BlocksComeAndGo) {
  const auto pool = KvPool::Create({1, 1, 32, kernels::KvType::kQ8_0}, 2);
  ASSERT_TRUE(pool.ok());
  const auto first = (*pool)->Take(), second = (*pool)->Take();
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(*first, *second);
  EXPECT_EQ((*pool)->Take().status().code(), Code::kResourceLimit);
  (*pool)->Share(*first);
  (*pool)->Release(*first);
  EXPECT_EQ((*pool)->free_blocks(), 0);
  (*pool)->Release(*first);
  EXPECT_EQ((*pool)->free_blocks(), 1);
  EXPECT_EQ(KvPool::Create({4096, 1 << 16, 1 << 16}, 1 << 30).status().code(), Code::kResourceLimit);
}

}  // namespace
}  // namespace tenon::runtime
