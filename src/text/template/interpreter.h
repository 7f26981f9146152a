// Runs the tree of a template.
#ifndef TENON_TEXT_TEMPLATE_INTERPRETER_H_
#define TENON_TEXT_TEMPLATE_INTERPRETER_H_

#include <map>
#include <string>
#include <vector>

#include "text/template/ast.h"
#include "text/template/value.h"

namespace tenon::text {

struct TemplateLimits {
  int64_t steps = 2'000'000;             ///< nodes run
  int64_t bytes = int64_t{64} << 20;     ///< text made, output and strings in between
  int depth = 400;                       ///< expressions and calls within each other
};

struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string, Value>> names;

  const Value* Find(std::string_view name) const;
  void Set(std::string_view name, Value value);
};

class Interpreter {
 public:
  Interpreter(const TemplateLimits& limits, std::shared_ptr<Scope> globals) : limits_(limits), scope_(std::move(globals)) {}
  /// The text of the statements. Throws TemplateError.
  Str Run(const std::vector<NodePtr>& body);

  /// Filters and tests call back: map("upper"), select("defined") ...
  Value ApplyFilter(const std::string& name, const Value& object, const Arguments& arguments);
  bool ApplyTest(const std::string& name, const Value& object, const Arguments& arguments);
  Value GetItem(const Value& object, const Value& key) const;
  /// Charges `bytes` of text to the limit.
  void Charge(size_t bytes);

 private:
  enum class Flow : uint8_t { kNext, kBreak, kContinue };
  struct Nested;
  Flow Exec(const std::vector<NodePtr>& body, Str* out);
  Flow ExecOne(const Node& n, Str* out);
  Flow ExecFor(const Node& n, Str* out);
  Flow RunLoop(const Node& n, const List& items, int depth, Str* out);
  Value LoopValue(const Node& n, const List& items, size_t index, int depth, const std::shared_ptr<Value>& changed);
  void ExecWith(const Node& n, Str* out);
  void Assign(const Node& target, const Value& value);
  void Emit(const Str& text, Str* out);
  Value MakeMacro(const Node& n);
  Value CallMacro(const Node& n, const std::shared_ptr<Scope>& closure, const Arguments& arguments);

  Value Eval(const Node& n);
  Value EvalBinary(const Node& n);
  Value EvalArithmetic(const std::string& op, const Value& a, const Value& b);
  Value EvalCompare(const Node& n);
  Value EvalSlice(const Node& n);
  Value EvalCall(const Node& n, const Value* caller);
  Value EvalFilter(const Node& n, const Value* block);
  Value EvalTest(const Node& n);
  Value Attribute(const Value& object, const std::string& name, int line) const;
  Arguments EvalArguments(const Node& n);
  std::shared_ptr<Scope> Push();

  TemplateLimits limits_;
  std::shared_ptr<Scope> scope_;
  int64_t steps_ = 0;
  int64_t bytes_ = 0;
  int depth_ = 0;
};

/// The method `name` of a string, list or dict; undefined: there is none.
Value Method(const Value& object, const std::string& name);
/// range, dict, namespace, cycler, joiner, raise_exception, strftime_now.
void AddGlobals(Scope* scope);
bool Contains(const Value& container, const Value& item);
/// '%s and %d' % values.
Str FormatPercent(const Str& format, const List& values);

}  // namespace tenon::text

#endif  // TENON_TEXT_TEMPLATE_INTERPRETER_H_
