// Statements.
#include "text/template/interpreter.h"

#include <algorithm>

namespace tenon::text {

using K = Node::Kind;

const Value* Scope::Find(std::string_view name) const {
  for (const Scope* s = this; s != nullptr; s = s->parent.get()) {
    for (const auto& [n, v] : s->names) {
      if (n == name) return &v;
    }
  }
  return nullptr;
}

void Scope::Set(std::string_view name, Value value) {
  for (auto& [n, v] : names) {
    if (n == name) {
      v = std::move(value);
      return;
    }
  }
  names.emplace_back(std::string(name), std::move(value));
}

// Counts nested calls and expressions.
struct Interpreter::Nested {
  explicit Nested(Interpreter* i) : interpreter(i) {
    if (++interpreter->depth_ > interpreter->limits_.depth) throw TemplateError{"expressions or calls nested too deep", 0, true};
  }
  ~Nested() { --interpreter->depth_; }
  Interpreter* interpreter;
};

void Interpreter::Charge(size_t bytes) {
  bytes_ += static_cast<int64_t>(bytes);
  if (bytes_ > limits_.bytes) throw TemplateError{"more than " + std::to_string(limits_.bytes) + " bytes of text", 0, true};
}

void Interpreter::Emit(const Str& text, Str* out) {
  Charge(text.text.size());
  out->Append(text);
}

std::shared_ptr<Scope> Interpreter::Push() {
  auto before = scope_;
  scope_ = std::make_shared<Scope>(Scope{before, {}});
  return before;
}

Str Interpreter::Run(const std::vector<NodePtr>& body) {
  Str out;
  Exec(body, &out);
  return out;
}

Interpreter::Flow Interpreter::Exec(const std::vector<NodePtr>& body, Str* out) {
  for (const NodePtr& n : body) {
    if (++steps_ > limits_.steps) throw TemplateError{"more than " + std::to_string(limits_.steps) + " steps", n->line, true};
    try {
      const Flow flow = ExecOne(*n, out);
      if (flow != Flow::kNext) return flow;
    } catch (TemplateError& e) {
      if (e.line == 0) e.line = n->line;
      throw;
    }
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::ExecOne(const Node& n, Str* out) {
  const Nested nested(this);
  switch (n.kind) {
    case K::kText: Emit(n.value.str(), out); break;
    case K::kPrint: Emit(ToText(Eval(*n.args[0])), out); break;
    case K::kIf: return Exec(Eval(*n.args[0]).Truth() ? n.body : n.other, out);
    case K::kFor: return ExecFor(n, out);
    case K::kSet: Assign(*n.args[0], Eval(*n.args[1])); break;
    case K::kSetBlock: {
      Str text;
      const auto before = Push();
      Exec(n.body, &text);
      scope_ = before;
      Value value = Value::String(std::move(text));
      if (n.args[1] != nullptr) value = EvalFilter(*n.args[1], &value);
      Assign(*n.args[0], value);
      break;
    }
    case K::kMacro: scope_->Set(n.name, MakeMacro(n)); break;
    case K::kCallBlock: {
      const Value caller = MakeMacro(n);
      Emit(ToText(EvalCall(*n.args[0], &caller)), out);
      break;
    }
    case K::kFilterBlock: {
      Str text;
      const auto before = Push();
      Exec(n.body, &text);
      scope_ = before;
      const Value value = Value::String(std::move(text));
      Emit(ToText(EvalFilter(*n.args[0], &value)), out);
      break;
    }
    case K::kWith: ExecWith(n, out); break;
    case K::kBlock: return Exec(n.body, out);
    case K::kBreak: return Flow::kBreak;
    case K::kContinue: return Flow::kContinue;
    default: break;
  }
  return Flow::kNext;
}

void Interpreter::ExecWith(const Node& n, Str* out) {
  List values;
  for (size_t i = 1; i < n.args.size(); i += 2) values.push_back(Eval(*n.args[i]));
  const auto before = Push();
  for (size_t i = 0; i < values.size(); ++i) Assign(*n.args[2 * i], values[i]);
  Exec(n.body, out);
  scope_ = before;
}

void Interpreter::Assign(const Node& target, const Value& value) {
  if (target.kind == K::kName) {
    scope_->Set(target.name, value);
  } else if (target.kind == K::kAttr) {
    const Value* object = scope_->Find(target.args[0]->name);
    if (object == nullptr || !object->Is(Value::Kind::kNamespace))
      throw TemplateError{"cannot assign attribute on non-namespace object", target.line};
    object->Set(Value::String(target.name), value);
  } else {
    const List items = ToList(value);
    if (items.size() != target.args.size())
      throw TemplateError{"cannot unpack " + std::to_string(items.size()) + " values into " + std::to_string(target.args.size()),
                          target.line};
    for (size_t i = 0; i < items.size(); ++i) Assign(*target.args[i], items[i]);
  }
}

Interpreter::Flow Interpreter::ExecFor(const Node& n, Str* out) {
  List items = ToList(Eval(*n.args[1]));
  if (n.args[2] != nullptr) {
    List kept;
    const auto before = Push();
    for (const Value& item : items) {
      Assign(*n.args[0], item);
      if (Eval(*n.args[2]).Truth()) kept.push_back(item);
    }
    scope_ = before;
    items = std::move(kept);
  }
  return RunLoop(n, items, 1, out);
}

Interpreter::Flow Interpreter::RunLoop(const Node& n, const List& items, int depth, Str* out) {
  const Nested nested(this);
  const auto before = scope_;
  auto changed = std::make_shared<Value>(Value::Undefined("changed"));
  for (size_t i = 0; i < items.size(); ++i) {
    constexpr int64_t kStepsOfLoop = 10;   // an iteration makes a scope and the loop's variables
    steps_ += kStepsOfLoop;
    if (steps_ > limits_.steps) throw TemplateError{"more than " + std::to_string(limits_.steps) + " steps", n.line, true};
    scope_ = std::make_shared<Scope>(Scope{before, {}});
    Assign(*n.args[0], items[i]);
    scope_->Set("loop", LoopValue(n, items, i, depth, changed));
    const Flow flow = Exec(n.body, out);
    scope_ = before;
    if (flow == Flow::kBreak) break;
  }
  if (items.empty()) {
    Push();
    const Flow flow = Exec(n.other, out);
    scope_ = before;
    return flow;
  }
  return Flow::kNext;
}

Value Interpreter::LoopValue(const Node& n, const List& items, size_t index, int depth, const std::shared_ptr<Value>& changed) {
  const auto i = static_cast<int64_t>(index);
  const auto count = static_cast<int64_t>(items.size());
  Dict loop;
  const auto add = [&](const char* name, Value v) { loop.emplace_back(Value::String(name), std::move(v)); };
  add("index", Value::Int(i + 1));
  add("index0", Value::Int(i));
  add("first", Value::Bool(i == 0));
  add("last", Value::Bool(i + 1 == count));
  add("length", Value::Int(count));
  add("revindex", Value::Int(count - i));
  add("revindex0", Value::Int(count - i - 1));
  add("depth", Value::Int(depth));
  add("depth0", Value::Int(depth - 1));
  add("previtem", i > 0 ? items[index - 1] : Value::Undefined("there is no previous item"));
  add("nextitem", i + 1 < count ? items[index + 1] : Value::Undefined("there is no next item"));
  add("cycle", Value::MakeFunction([index](const Arguments& a) {
        if (a.positional.empty()) throw TemplateError{"no items for cycling given"};
        return a.positional[index % a.positional.size()];
      }));
  add("changed", Value::MakeFunction([changed](const Arguments& a) {
        const Value now = Value::MakeList(a.positional);
        const bool differs = !changed->Equals(now);
        *changed = now;
        return Value::Bool(differs);
      }));
  if (n.flag) {
    add("__call__", Value::MakeFunction([this, &n, depth](const Arguments& a) {
          Str out;
          RunLoop(n, ToList(a.Get(0, "iterable")), depth + 1, &out);
          return Value::String(std::move(out));
        }));
  }
  return Value::MakeDict(std::move(loop));
}

Value Interpreter::MakeMacro(const Node& n) {
  // A macro sees the names where it was defined, at the time of the call.
  const std::weak_ptr<Scope> closure = scope_;
  return Value::MakeFunction([this, &n, closure](const Arguments& a) {
    const auto scope = closure.lock();
    if (scope == nullptr) throw TemplateError{"a macro called outside of the block that defined it"};
    return CallMacro(n, scope, a);
  });
}

Value Interpreter::CallMacro(const Node& n, const std::shared_ptr<Scope>& closure, const Arguments& arguments) {
  const Nested nested(this);
  const auto before = scope_;
  scope_ = std::make_shared<Scope>(Scope{closure, {}});
  struct Restore {
    Interpreter* i;
    std::shared_ptr<Scope> scope;
    ~Restore() { i->scope_ = scope; }
  } const restore{this, before};
  const std::string label = n.name.empty() ? "caller" : n.name;
  if (arguments.positional.size() > n.names.size())
    throw TemplateError{"macro '" + label + "' takes not more than " + std::to_string(n.names.size()) + " argument(s)"};
  for (size_t i = 0; i < n.names.size(); ++i) {
    if (const Value* given = arguments.Find(i, n.names[i])) {
      scope_->Set(n.names[i], *given);
      continue;
    }
    const auto otherwise = std::find_if(n.named.begin(), n.named.end(), [&](const auto& d) { return d.first == n.names[i]; });
    scope_->Set(n.names[i], otherwise != n.named.end() ? Eval(*otherwise->second) : Value::Undefined(n.names[i]));
  }
  for (const auto& [name, value] : arguments.named) {
    if (name == "caller") {
      scope_->Set("caller", value);
    } else if (std::find(n.names.begin(), n.names.end(), name) == n.names.end()) {
      throw TemplateError{"macro '" + label + "' takes no keyword argument '" + name + "'"};
    }
  }
  Str out;
  Exec(n.body, &out);
  return Value::String(std::move(out));
}

}  // namespace tenon::text
