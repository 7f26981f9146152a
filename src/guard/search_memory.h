// What earlier searches found out about the same model, samples and wishes, kept by whoever starts a search. A search that finds
// all it asks for repeats its choice without measuring; one that was interrupted goes on.
#ifndef TENON_GUARD_SEARCH_MEMORY_H_
#define TENON_GUARD_SEARCH_MEMORY_H_

#include <optional>
#include <string>

#include "guard/assess.h"
#include "guard/drop.h"

namespace tenon::guard {

class SearchMemory {
 public:
  virtual ~SearchMemory() = default;
  /// `item` and `value` are plain ASCII.
  virtual std::optional<std::string> Recall(const std::string& item) = 0;
  virtual void Keep(const std::string& item, const std::string& value) = 0;
};

/// What lowering one operator alone does.
struct Alone {
  double error = 0;
  double drop = 0;
};

/// Texts of what is kept, and back; nothing for a text that is not one.
std::string ToText(const Times& times);
std::string ToText(const Drop& drop);
std::string ToText(const Duel& duel);
std::string ToText(const Alone& alone);
std::string ToText(double value);
std::optional<Times> TimesFromText(const std::string& text);
std::optional<Drop> DropFromText(const std::string& text);
std::optional<Duel> DuelFromText(const std::string& text);
std::optional<Alone> AloneFromText(const std::string& text);
std::optional<double> NumberFromText(const std::string& text);

}  // namespace tenon::guard

#endif  // TENON_GUARD_SEARCH_MEMORY_H_
