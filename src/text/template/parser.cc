// Statements of templates by recursive descent over the grammar of jinja2/parser.py.
#include "text/template/expression_parser.h"

namespace tenon::text {
namespace {

class Parser : ExpressionParser {
 public:
  explicit Parser(std::vector<Token> tokens) : ExpressionParser(std::move(tokens)) {}

  std::vector<NodePtr> Run() {
    std::vector<NodePtr> body = Statements({});
    if (Now().kind != T::kEnd) Fail("unexpected '" + Now().text + "'");
    return body;
  }

 private:
  // Statements up to a block that begins with one of `ends`, whose name is left to be read.
  std::vector<NodePtr> Statements(const std::vector<std::string_view>& ends) {
    const Depth depth(this);
    std::vector<NodePtr> body;
    while (Now().kind != T::kEnd) {
      if (Now().kind == T::kText) {
        NodePtr n = New(K::kText);
        n->value = Value::String(Now().text);
        ++at_;
        body.push_back(std::move(n));
      } else if (Now().kind == T::kPrintBegin) {
        ++at_;
        NodePtr n = New(K::kPrint);
        n->args.push_back(Tuple());
        ExpectKind(T::kPrintEnd, "'}}'");
        body.push_back(std::move(n));
      } else {
        ExpectKind(T::kBlockBegin, "a block");
        for (std::string_view end : ends) {
          if (IsName(end)) return body;
        }
        body.push_back(Statement());
      }
    }
    if (!ends.empty()) Fail("the end of the template where '" + std::string(ends.back()) + "' is missing");
    return body;
  }

  NodePtr Statement() {
    const std::string word = Name();
    --at_;
    if (word == "if") return If();
    if (word == "for") return For();
    if (word == "set") return Set();
    if (word == "macro") return Macro();
    if (word == "call") return CallBlock();
    if (word == "filter") return FilterBlock();
    if (word == "with") return With();
    if (word == "generation") return Plain("endgeneration");
    if (word == "break" || word == "continue") {
      NodePtr n = New(word == "break" ? K::kBreak : K::kContinue);
      ++at_;
      BlockEnd();
      return n;
    }
    Fail("unknown tag '" + word + "'");
  }

  NodePtr Plain(std::string_view end) {
    NodePtr n = New(K::kBlock);
    ++at_;
    BlockEnd();
    Body(n.get(), end);
    return n;
  }

  void Body(Node* n, std::string_view end) {
    n->body = Statements({end});
    ++at_;
    BlockEnd();
  }

  NodePtr If() {
    NodePtr n = New(K::kIf);
    ++at_;
    n->args.push_back(Tuple());
    BlockEnd();
    n->body = Statements({"elif", "else", "endif"});
    if (IsName("elif")) {
      const Depth depth(this);
      n->other.push_back(If());
      return n;
    }
    if (TakeName("else")) {
      BlockEnd();
      n->other = Statements({"endif"});
    }
    ++at_;
    BlockEnd();
    return n;
  }

  NodePtr For() {
    NodePtr n = New(K::kFor);
    ++at_;
    n->args.push_back(Target());
    if (!TakeName("in")) Fail("expected 'in'");
    n->args.push_back(Tuple(/*conditional=*/false));
    n->args.push_back(TakeName("if") ? Expression() : nullptr);
    n->flag = TakeName("recursive");
    BlockEnd();
    n->body = Statements({"else", "endfor"});
    if (TakeName("else")) {
      BlockEnd();
      n->other = Statements({"endfor"});
    }
    ++at_;
    BlockEnd();
    return n;
  }

  // A name, name.attribute, or a tuple of targets.
  NodePtr Target() {
    const Depth depth(this);
    NodePtr first = OneTarget();
    if (!IsOp(",")) return first;
    NodePtr tuple = New(K::kTuple);
    tuple->args.push_back(std::move(first));
    while (TakeOp(",")) {
      if (Now().kind != T::kName && !IsOp("(")) break;
      tuple->args.push_back(OneTarget());
    }
    return tuple;
  }
  NodePtr OneTarget() {
    if (TakeOp("(")) {
      NodePtr inner = Target();
      Expect(")");
      return inner;
    }
    NodePtr n = New(K::kName);
    n->name = Name();
    if (!TakeOp(".")) return n;
    NodePtr attribute = New(K::kAttr);
    attribute->args.push_back(std::move(n));
    attribute->name = Name();
    return attribute;
  }

  NodePtr Set() {
    NodePtr n = New(K::kSet);
    ++at_;
    n->args.push_back(Target());
    if (TakeOp("=")) {
      n->args.push_back(Tuple());
      BlockEnd();
      return n;
    }
    n->kind = K::kSetBlock;
    n->args.push_back(IsOp("|") ? Filters(Empty()) : nullptr);
    BlockEnd();
    Body(n.get(), "endset");
    return n;
  }

  NodePtr Empty() const { return New(K::kText); }   // stands for the text of a block

  void Parameters(Node* n) {
    while (!IsOp(")")) {
      if (!n->names.empty()) Expect(",");
      if (IsOp(")")) break;
      n->names.push_back(Name());
      if (TakeOp("=")) n->named.emplace_back(n->names.back(), Expression());
    }
    Expect(")");
  }

  NodePtr Macro() {
    NodePtr n = New(K::kMacro);
    ++at_;
    n->name = Name();
    Expect("(");
    Parameters(n.get());
    BlockEnd();
    Body(n.get(), "endmacro");
    return n;
  }

  NodePtr CallBlock() {
    NodePtr n = New(K::kCallBlock);
    ++at_;
    if (TakeOp("(")) Parameters(n.get());
    n->args.push_back(Expression());
    if (n->args[0]->kind != K::kCall) Fail("expected a call");
    BlockEnd();
    Body(n.get(), "endcall");
    return n;
  }

  NodePtr FilterBlock() {
    NodePtr n = New(K::kFilterBlock);
    ++at_;
    NodePtr filter = OneFilter(Empty());
    n->args.push_back(IsOp("|") ? Filters(std::move(filter)) : std::move(filter));
    BlockEnd();
    Body(n.get(), "endfilter");
    return n;
  }

  NodePtr With() {
    NodePtr n = New(K::kWith);
    ++at_;
    while (Now().kind != T::kBlockEnd) {
      if (!n->args.empty()) Expect(",");
      n->args.push_back(OneTarget());
      Expect("=");
      n->args.push_back(Expression());
    }
    BlockEnd();
    Body(n.get(), "endwith");
    return n;
  }
};

}  // namespace

std::vector<NodePtr> ParseTemplate(std::string_view source) {
  return Parser(Tokenize(source)).Run();
}

}  // namespace tenon::text
