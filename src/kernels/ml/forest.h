// Trees laid out to be walked fast: every test is "x > threshold", the two children of a node lie side by side, and a leaf leads
// to itself, so that a step is one comparison and one addition without a branch, and several walks go on at once.
//
//   next = child + (x[feature] > threshold)
//
// Other tests are said with this one: x <= t and x > t as they are; x < t as !(x > prev(t)) with prev(t) the number before t;
// x == t as x > prev(t) and !(x > t); membership in a set as a binary search. NaN goes to the first child unless `nan_second`.
#ifndef TENON_KERNELS_ML_FOREST_H_
#define TENON_KERNELS_ML_FOREST_H_

#include <cstdint>
#include <vector>

#include "kernels/ml/trees.h"

namespace tenon::kernels::ml {

/// Rows that walk a tree at once; a block of rows is stored feature by feature, kLanes rows side by side.
inline constexpr int64_t kLanes = 8;

template <typename T>
struct Forest {
  struct Node {
    T threshold;        ///< +inf in a leaf
    uint32_t feature;   ///< kLanes * number among `features`
    uint32_t child;     ///< the first child; a leaf's is itself
  };
  struct Tree {
    uint32_t root;
    uint32_t least_depth;   ///< steps that no walk ends before
  };
  struct Weight {
    uint32_t target;
    T value;
  };

  std::vector<Node> nodes;             ///< breadth first, tree by tree
  std::vector<uint8_t> nan_second;     ///< one for each node
  std::vector<T> value;                ///< one for each node: the weight of a leaf, when each has exactly one (`single`)
  std::vector<uint32_t> leaf;          ///< one for each node otherwise: a leaf's number
  std::vector<uint32_t> leaf_begin;    ///< weights of leaf i: [leaf_begin[i], leaf_begin[i + 1])
  std::vector<Weight> weights;
  std::vector<Tree> trees;
  std::vector<uint32_t> features;      ///< columns of the input that some test reads
  bool single = false;                 ///< every leaf has one weight, all of them for target `target`
  uint32_t target = 0;
  double visits = 0;                   ///< estimate of steps for one row

  size_t bytes() const {
    return nodes.size() * (sizeof(Node) + 1 + sizeof(T) + 4) + weights.size() * sizeof(Weight) + leaf_begin.size() * 4;
  }
};

/// kBadInput when nodes are shared by so many parents that the trees would be far larger than their description.
template <typename T>
Result<Forest<T>> BuildForest(const TreeSpec& spec);

/// Leaves (indices of `nodes`) of trees [begin, end) for kLanes rows: leaves[(t - begin) * kLanes + lane]. `x` holds
/// kLanes values of each used feature. `nans`: some of them may be NaN.
template <typename T>
void WalkRows(const Forest<T>& forest, const T* x, bool nans, size_t tree, uint32_t* leaves);
/// Leaves of trees [begin, end) for the one row in lane 0 of `x`.
template <typename T>
void WalkTrees(const Forest<T>& forest, const T* x, bool nans, size_t begin, size_t end, uint32_t* leaves);

}  // namespace tenon::kernels::ml

#endif  // TENON_KERNELS_ML_FOREST_H_
