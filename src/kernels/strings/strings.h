// Operators on strings: StringConcat, StringSplit, StringNormalizer, RegexFullMatch, TfIdfVectorizer, Tokenizer. Strings are
// UTF-8.
#ifndef TENON_KERNELS_STRINGS_STRINGS_H_
#define TENON_KERNELS_STRINGS_STRINGS_H_

#include "kernels/kernel.h"

namespace tenon::kernels::strings {

std::span<const OpKernels> Operators();

/// Element-wise concatenation with broadcasting.
Status InferStringConcat(const ShapeArgs& args);
/// Pieces [..., most] padded with empty strings, and their numbers; attributes delimiter (empty: runs of white space), maxsplit.
Status InferStringSplit(const ShapeArgs& args);
/// [c] or [1, c] without the stop words, in another case; attributes case_change_action, is_case_sensitive, stopwords, locale
/// (any: case follows Unicode's simple mappings).
Status InferStringNormalizer(const ShapeArgs& args);
/// Whether the whole string matches attribute `pattern` (RE2's syntax, run by PCRE2 with a bound on backtracking).
Status InferRegexFullMatch(const ShapeArgs& args);
/// Counts of n-grams with skips, [c] or [b, c] to [n] or [b, n]; attributes as in ONNX, modes TF, IDF, TFIDF.
Status InferTfIdfVectorizer(const ShapeArgs& args);

/// com.microsoft.Tokenizer: [c] or [n, c] to [..., most tokens], padded; attributes mark, mincharnum, pad_value, separators
/// (expressions) or tokenexp.
Status InferTokenizer(const ShapeArgs& args);

}  // namespace tenon::kernels::strings

#endif  // TENON_KERNELS_STRINGS_STRINGS_H_
