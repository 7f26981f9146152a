// Expressions of templates by recursive descent, as jinja2/parser.py has them; depth is bounded. Included by parser.cc alone.
#ifndef TENON_TEXT_TEMPLATE_EXPRESSION_PARSER_H_
#define TENON_TEXT_TEMPLATE_EXPRESSION_PARSER_H_

#include <charconv>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/template/ast.h"
#include "text/template/lexer.h"

namespace tenon::text {

class ExpressionParser {
 protected:
  using K = Node::Kind;
  using T = Token::Kind;
  static constexpr int kMaxDepth = 100;
  /// Operators, attributes and filters one after the other: each makes the tree one deeper.
  static constexpr int kMaxChain = 200;

  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  struct Depth {
    explicit Depth(ExpressionParser* p) : parser(p) {
      if (++parser->depth_ > kMaxDepth)
        throw TemplateError{"nested deeper than " + std::to_string(kMaxDepth), parser->Now().line, true};
    }
    ~Depth() { --parser->depth_; }
    ExpressionParser* parser;
  };

  const Token& Now() const { return tokens_[at_]; }
  [[noreturn]] void Fail(const std::string& message) const { throw TemplateError{message, Now().line}; }
  bool IsOp(std::string_view op) const { return Now().kind == T::kOperator && Now().text == op; }
  bool IsName(std::string_view name) const { return Now().kind == T::kName && Now().text == name; }
  bool TakeOp(std::string_view op) {
    if (!IsOp(op)) return false;
    ++at_;
    return true;
  }
  bool TakeName(std::string_view name) {
    if (!IsName(name)) return false;
    ++at_;
    return true;
  }
  void Expect(std::string_view op) {
    if (!TakeOp(op)) Fail("expected '" + std::string(op) + "'" + (Now().text.empty() ? "" : ", got '" + Now().text + "'"));
  }
  void ExpectKind(T kind, const char* what) {
    if (Now().kind != kind) Fail(std::string("expected ") + what + (Now().text.empty() ? "" : ", got '" + Now().text + "'"));
    ++at_;
  }
  std::string Name() {
    if (Now().kind != T::kName) Fail("expected a name");
    return tokens_[at_++].text;
  }
  void Chain(int* length) const {
    if (++*length > kMaxChain)
      throw TemplateError{"an expression of more than " + std::to_string(kMaxChain) + " parts", Now().line, true};
  }
  NodePtr New(K kind) const {
    auto n = std::make_unique<Node>();
    n->kind = kind;
    n->line = Now().line;
    return n;
  }
  void BlockEnd() { ExpectKind(T::kBlockEnd, "the end of the block"); }

  // Expressions, loosest first.
  NodePtr Tuple(bool conditional = true) {
    NodePtr first = conditional ? Expression() : Or();
    if (!IsOp(",")) return first;
    NodePtr tuple = New(K::kTuple);
    tuple->args.push_back(std::move(first));
    while (TakeOp(",")) {
      if (Now().kind == T::kBlockEnd || Now().kind == T::kPrintEnd || IsOp(")")) break;
      tuple->args.push_back(conditional ? Expression() : Or());
    }
    return tuple;
  }

  NodePtr Expression() {
    const Depth depth(this);
    NodePtr value = Or();
    for (int length = 0; IsName("if"); Chain(&length)) {
      NodePtr n = New(K::kCond);
      ++at_;
      n->args.push_back(Or());
      n->args.push_back(std::move(value));
      if (TakeName("else")) n->args.push_back(Expression());
      value = std::move(n);
    }
    return value;
  }

  NodePtr Joined(std::string op, NodePtr left, NodePtr right, int line) const {
    NodePtr n = New(K::kBinary);
    n->line = line;
    n->name = std::move(op);
    n->args.push_back(std::move(left));
    n->args.push_back(std::move(right));
    return n;
  }

  NodePtr Or() {
    NodePtr left = And();
    for (int n = 0; IsName("or"); Chain(&n)) {
      const int line = tokens_[at_++].line;
      left = Joined("or", std::move(left), And(), line);
    }
    return left;
  }
  NodePtr And() {
    NodePtr left = Not();
    for (int n = 0; IsName("and"); Chain(&n)) {
      const int line = tokens_[at_++].line;
      left = Joined("and", std::move(left), Not(), line);
    }
    return left;
  }
  NodePtr Not() {
    if (!IsName("not")) return Compare();
    const Depth depth(this);
    NodePtr n = New(K::kUnary);
    n->name = tokens_[at_++].text;
    n->args.push_back(Not());
    return n;
  }

  NodePtr Compare() {
    NodePtr first = Binary(0);
    NodePtr n = New(K::kCompare);
    n->args.push_back(std::move(first));
    while (true) {
      std::string op;
      if (Now().kind == T::kOperator &&
          (Now().text == "==" || Now().text == "!=" || Now().text[0] == '<' || Now().text[0] == '>')) {
        op = Now().text;
      } else if (IsName("in")) {
        op = "in";
      } else if (IsName("not") && tokens_[at_ + 1].kind == T::kName && tokens_[at_ + 1].text == "in") {
        ++at_;
        op = "not in";
      } else {
        break;
      }
      ++at_;
      n->names.push_back(op);
      n->args.push_back(Binary(0));
    }
    return n->names.empty() ? std::move(n->args[0]) : std::move(n);
  }

  // + and -, then ~, then * / // %, then **: all from left to right.
  NodePtr Binary(size_t level) {
    static const std::vector<std::vector<std::string_view>> kLevels = {{"+", "-"}, {"~"}, {"*", "/", "//", "%"}, {"**"}};
    if (level == kLevels.size()) return Unary(true);
    NodePtr left = Binary(level + 1);
    for (int n = 0; Now().kind == T::kOperator; Chain(&n)) {
      bool here = false;
      for (std::string_view op : kLevels[level]) here = here || Now().text == op;
      if (!here) break;
      const int line = Now().line;
      std::string op = tokens_[at_++].text;
      left = Joined(std::move(op), std::move(left), Binary(level + 1), line);
    }
    return left;
  }

  NodePtr Unary(bool with_filter) {
    const Depth depth(this);
    NodePtr n;
    if (IsOp("-") || IsOp("+")) {
      n = New(K::kUnary);
      n->name = tokens_[at_++].text;
      n->args.push_back(Unary(false));
    } else {
      n = Primary();
    }
    n = Postfix(std::move(n));
    return with_filter ? Filters(std::move(n)) : std::move(n);
  }

  NodePtr Constant(Value v) {
    NodePtr n = New(K::kConst);
    n->value = std::move(v);
    ++at_;
    return n;
  }

  NodePtr Primary() {
    const Token& t = Now();
    if (t.kind == T::kName) {
      if (t.text == "true" || t.text == "True") return Constant(Value::Bool(true));
      if (t.text == "false" || t.text == "False") return Constant(Value::Bool(false));
      if (t.text == "none" || t.text == "None") return Constant(Value::None());
      NodePtr n = New(K::kName);
      n->name = t.text;
      ++at_;
      return n;
    }
    if (t.kind == T::kString) {
      std::string text = t.text;   // neighbours are one string
      while (tokens_[at_ + 1].kind == T::kString) text += tokens_[++at_].text;
      return Constant(Value::String(std::move(text)));
    }
    if (t.kind == T::kInteger) {
      int64_t i = 0;
      if (std::from_chars(t.text.data(), t.text.data() + t.text.size(), i).ec != std::errc())
        Fail("the number " + t.text + " is too large");
      return Constant(Value::Int(i));
    }
    if (t.kind == T::kFloat) {
      double d = 0;
      std::from_chars(t.text.data(), t.text.data() + t.text.size(), d);
      return Constant(Value::Float(d));
    }
    if (TakeOp("(")) {
      if (TakeOp(")")) return New(K::kTuple);
      NodePtr n = Tuple();
      Expect(")");
      return n;
    }
    if (IsOp("[")) return ListOf();
    if (IsOp("{")) return DictOf();
    Fail(t.text.empty() ? std::string("expected an expression") : "unexpected '" + t.text + "'");
  }

  NodePtr ListOf() {
    NodePtr n = New(K::kList);
    ++at_;
    while (!IsOp("]")) {
      if (!n->args.empty()) Expect(",");
      if (IsOp("]")) break;
      n->args.push_back(Expression());
    }
    ++at_;
    return n;
  }
  NodePtr DictOf() {
    NodePtr n = New(K::kDict);
    ++at_;
    while (!IsOp("}")) {
      if (!n->args.empty()) Expect(",");
      if (IsOp("}")) break;
      n->args.push_back(Expression());
      Expect(":");
      n->args.push_back(Expression());
    }
    ++at_;
    return n;
  }

  NodePtr Postfix(NodePtr n) {
    for (int length = 0;; Chain(&length)) {
      if (IsOp(".")) {
        NodePtr a = New(K::kAttr);
        ++at_;
        if (Now().kind == T::kInteger) {
          a->kind = K::kItem;
          a->args.push_back(std::move(n));
          a->args.push_back(Primary());
        } else {
          a->name = Name();
          a->args.push_back(std::move(n));
        }
        n = std::move(a);
      } else if (IsOp("[")) {
        n = Subscript(std::move(n));
      } else if (IsOp("(")) {
        n = Call(std::move(n));
      } else {
        return n;
      }
    }
  }

  NodePtr Call(NodePtr callee) {
    NodePtr n = New(K::kCall);
    n->args.push_back(std::move(callee));
    CallArguments(n.get());
    return n;
  }

  NodePtr Subscript(NodePtr object) {
    NodePtr n = New(K::kItem);
    ++at_;
    n->args.push_back(std::move(object));
    NodePtr parts[3];
    int count = 0;
    while (!IsOp("]")) {
      if (IsOp(":")) {
        if (++count > 2) Fail("unexpected ':'");
        ++at_;
        continue;
      }
      if (parts[count] != nullptr) Fail("expected ']'");
      parts[count] = count == 0 ? Tuple() : Expression();
    }
    ++at_;
    if (count == 0 && parts[0] == nullptr) Fail("expected a subscript");
    n->args.push_back(std::move(parts[0]));
    if (count > 0) {
      n->kind = K::kSlice;
      n->args.push_back(std::move(parts[1]));
      n->args.push_back(std::move(parts[2]));
    }
    return n;
  }

  void CallArguments(Node* n) {
    Expect("(");
    bool first = true;
    while (!IsOp(")")) {
      if (!first) Expect(",");
      first = false;
      if (IsOp(")")) break;
      if (IsOp("*") || IsOp("**")) Fail("arguments by * and ** are not supported");
      if (Now().kind == T::kName && tokens_[at_ + 1].kind == T::kOperator && tokens_[at_ + 1].text == "=") {
        std::string name = Name();
        ++at_;
        n->named.emplace_back(std::move(name), Expression());
      } else {
        if (!n->named.empty()) Fail("an argument without a name after one with");
        n->args.push_back(Expression());
      }
    }
    ++at_;
  }

  NodePtr OneFilter(NodePtr object) {
    NodePtr n = New(K::kFilter);
    n->name = Name();
    while (TakeOp(".")) n->name += "." + Name();
    n->args.push_back(std::move(object));
    if (IsOp("(")) CallArguments(n.get());
    return n;
  }

  NodePtr Filters(NodePtr n) {
    for (int length = 0;; Chain(&length)) {
      if (TakeOp("|")) {
        n = OneFilter(std::move(n));
      } else if (IsName("is")) {
        n = Test(std::move(n));
      } else if (IsOp("(")) {
        n = Call(std::move(n));
      } else {
        return n;
      }
    }
  }

  NodePtr Test(NodePtr object) {
    NodePtr n = New(K::kTest);
    ++at_;
    const bool negated = TakeName("not");
    n->name = Name();
    n->args.push_back(std::move(object));
    const Token& t = Now();
    const bool value = t.kind == T::kString || t.kind == T::kInteger || t.kind == T::kFloat || IsOp("[") || IsOp("{") ||
                       (t.kind == T::kName && t.text != "else" && t.text != "or" && t.text != "and" && t.text != "if" &&
                        t.text != "is" && t.text != "not" && t.text != "in" && t.text != "recursive");
    if (IsOp("(")) {
      CallArguments(n.get());
    } else if (value) {
      n->args.push_back(Postfix(Primary()));
    }
    if (!negated) return n;
    NodePtr no = New(K::kUnary);
    no->name = "not";
    no->args.push_back(std::move(n));
    return no;
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace tenon::text

#endif  // TENON_TEXT_TEMPLATE_EXPRESSION_PARSER_H_
