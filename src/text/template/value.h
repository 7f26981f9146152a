// Values of templates, as Python has them. Strings remember which of their bytes come from outside the template: control tokens
// in those stay text.
#ifndef TENON_TEXT_TEMPLATE_VALUE_H_
#define TENON_TEXT_TEMPLATE_VALUE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::text {

/// What a template does wrong, thrown and caught within this folder. `line` 0: not known yet.
struct TemplateError {
  std::string message;
  int line = 0;
  bool limit = false;   ///< a resource limit, not a mistake
};

/// UTF-8 text with a mark a byte. `outside` is empty (all bytes are the template's own) or as long as `text`, 1 for foreign
/// bytes.
struct Str {
  std::string text;
  std::string outside;

  bool AnyOutside() const { return outside.find('\1') != std::string::npos; }
  void Append(const Str& s);
  Str Sub(size_t begin, size_t size) const;
  static Str Own(std::string text) { return {std::move(text), ""}; }
  /// `text` made from `from` by a change that follows no bytes: foreign as a whole when any of it was.
  static Str Like(std::string text, const Str& from);
};

class Value;
using List = std::vector<Value>;
using Dict = std::vector<std::pair<Value, Value>>;   ///< in order; small, searched from the front
struct Arguments;
using Function = std::function<Value(const Arguments&)>;

class Value {
 public:
  enum class Kind : uint8_t { kUndefined, kNone, kBool, kInt, kFloat, kString, kList, kTuple, kDict, kNamespace, kFunction };

  Value() = default;
  static Value Undefined(std::string name);
  static Value None() { return Value(Kind::kNone); }
  static Value Bool(bool b);
  static Value Int(int64_t i);
  static Value Float(double d);
  static Value String(Str s);
  static Value String(std::string s) { return String(Str::Own(std::move(s))); }
  static Value MakeList(List items, bool tuple = false);
  static Value MakeDict(Dict items, bool is_namespace = false);
  static Value MakeFunction(Function f);

  Kind kind() const { return kind_; }
  bool Is(Kind k) const { return kind_ == k; }
  bool IsString() const { return kind_ == Kind::kString; }
  bool IsList() const { return kind_ == Kind::kList || kind_ == Kind::kTuple; }
  bool IsDict() const { return kind_ == Kind::kDict || kind_ == Kind::kNamespace; }
  bool IsInteger() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }
  bool IsNumber() const { return IsInteger() || kind_ == Kind::kFloat; }

  int64_t integer() const { return integer_; }
  double number() const { return kind_ == Kind::kFloat ? number_ : static_cast<double>(integer_); }
  const Str& str() const { return *string_; }
  const std::string& text() const { return string_->text; }
  const List& list() const { return *list_; }
  Dict& dict() const { return *dict_; }
  const Function& function() const { return *function_; }
  const void* identity() const {
    return string_ ? static_cast<const void*>(string_.get()) : list_ ? static_cast<const void*>(list_.get()) : dict_.get();
  }

  bool Truth() const;
  bool Equals(const Value& o) const;
  /// <0, 0, >0; throws where Python would not order the two.
  int Compare(const Value& o) const;
  /// The value under a key, null: none.
  const Value* Get(std::string_view key) const;
  void Set(const Value& key, Value value) const;
  const char* TypeName() const;

 private:
  explicit Value(Kind k) : kind_(k) {}
  Kind kind_ = Kind::kUndefined;
  int64_t integer_ = 0;
  double number_ = 0;
  std::shared_ptr<const Str> string_;   // also the name of an undefined value
  std::shared_ptr<const List> list_;
  std::shared_ptr<Dict> dict_;
  std::shared_ptr<const Function> function_;
};

struct Arguments {
  List positional;
  std::vector<std::pair<std::string, Value>> named;

  /// By position or by name; null: not given.
  const Value* Find(size_t position, std::string_view name) const;
  Value Get(size_t position, std::string_view name, Value otherwise = Value()) const;
};

/// str(v) and repr(v).
Str ToText(const Value& v);
Str ToRepr(const Value& v);
/// json.dumps(v, ensure_ascii=False, indent, sort_keys); indent < 0: one line.
Str ToJson(const Value& v, int indent, bool sort_keys);
/// What a loop over `v` sees.
List ToList(const Value& v);

// Text by characters.
size_t Length(const Str& s);
Str Slice(const Str& s, const int64_t* start, const int64_t* stop, int64_t step);
/// The positions that Python's slice of a sequence of `size` takes.
std::vector<size_t> SlicePositions(size_t size, const int64_t* start, const int64_t* stop, int64_t step);
Str StripChars(const Str& s, const std::string* chars, bool left, bool right);
Str Replace(const Str& s, const Str& from, const Str& to, int64_t count);

/// A value from JSON text; all its strings are foreign unless `own`. Throws TemplateError.
Value ValueFromJson(std::string_view json, bool own);

}  // namespace tenon::text

#endif  // TENON_TEXT_TEMPLATE_VALUE_H_
