// The tree of a template.
#ifndef TENON_TEXT_TEMPLATE_AST_H_
#define TENON_TEXT_TEMPLATE_AST_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/template/value.h"

namespace tenon::text {

struct Node;
using NodePtr = std::unique_ptr<Node>;

/// `args` and the other members as said at each kind.
struct Node {
  enum class Kind : uint8_t {
    // Expressions
    kConst,     ///< value
    kName,      ///< name
    kList,
    kTuple,
    kDict,      ///< key, value, key, value ...
    kUnary,     ///< name: "-", "+", "not"
    kBinary,    ///< name: "and", "or", "+", "-", "~" ...
    kCompare,   ///< first, then one for each of `names` ("==", "in", "not in" ...)
    kCond,      ///< condition, then, else (may be missing)
    kAttr,      ///< object; name
    kItem,      ///< object, subscript
    kSlice,     ///< object, start, stop, step (null where left out)
    kCall,      ///< callee, arguments; named
    kFilter,    ///< object, arguments; name, named
    kTest,      ///< object, arguments; name
    // Statements
    kText,      ///< value
    kPrint,     ///< expression
    kIf,        ///< condition; body, other
    kFor,       ///< target, iterable, condition (may be null); body, other; flag: recursive
    kSet,       ///< target, value
    kSetBlock,  ///< target, filters applied to name "" (may be null); body
    kMacro,     ///< name; names: parameters; named: their defaults; body
    kCallBlock, ///< call; names, named: parameters of the caller; body
    kFilterBlock,   ///< filter of name ""; body
    kWith,      ///< target, value, target, value ...; body
    kBlock,     ///< body
    kBreak,
    kContinue,
  };
  Kind kind = Kind::kConst;
  int line = 0;
  bool flag = false;
  std::string name;
  Value value;
  std::vector<NodePtr> args;
  std::vector<std::string> names;
  std::vector<std::pair<std::string, NodePtr>> named;
  std::vector<NodePtr> body;
  std::vector<NodePtr> other;
};

/// The statements of `source`. Throws TemplateError.
std::vector<NodePtr> ParseTemplate(std::string_view source);

}  // namespace tenon::text

#endif  // TENON_TEXT_TEMPLATE_AST_H_
