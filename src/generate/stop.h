// Stop strings in a stream of text: what could be the beginning of one is held back until it is decided.
#ifndef TENON_GENERATE_STOP_H_
#define TENON_GENERATE_STOP_H_

#include <string>
#include <string_view>
#include <vector>

namespace tenon::generate {

class StopStrings {
 public:
  /// Empty strings stop nothing.
  explicit StopStrings(std::vector<std::string> stops);

  /// The text that may be shown now. Once a stop string is complete, `stopped()` holds and nothing more comes: what follows it in
  /// `text` is dropped, and the stop string is not shown.
  std::string Add(std::string_view text);
  /// What was held back, when the answer ends without a stop string.
  std::string Finish();
  bool stopped() const { return stopped_; }
  /// The one that was found; "" before.
  const std::string& found() const { return found_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  std::string found_;
  bool stopped_ = false;
};

}  // namespace tenon::generate

#endif  // TENON_GENERATE_STOP_H_
