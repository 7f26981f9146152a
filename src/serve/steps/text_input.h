// Pixels as PP-OCR's models take them.
#ifndef TENON_SERVE_STEPS_TEXT_INPUT_H_
#define TENON_SERVE_STEPS_TEXT_INPUT_H_

#include "tenon/media.h"

namespace tenon::serve {

/// Channels in order B, G, R, levels as -1..1, into three planes of picture.height rows of `columns` >= picture.width values.
void WriteBgr(const Picture& picture, int columns, float* out);

}  // namespace tenon::serve

#endif  // TENON_SERVE_STEPS_TEXT_INPUT_H_
