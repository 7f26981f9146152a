// ChatTemplate over the interpreter in template/.
#include "text/chat_template.h"

#include <nlohmann/json.hpp>

#include "text/template/interpreter.h"
#include "text/unicode.h"

namespace tenon::text {
namespace {

constexpr size_t kMaxSource = size_t{1} << 20;

Status StatusOf(const TemplateError& e) {
  return MakeStatus(e.limit ? Code::kResourceLimit : Code::kBadInput, "chat template{}: {}",
                    e.line > 0 ? fmt::format(", line {}", e.line) : std::string(), Sanitize(e.message));
}

}  // namespace

struct ChatTemplate::State {
  std::vector<NodePtr> body;

  Result<Rendered> Run(const std::shared_ptr<Scope>& globals) const {
    try {
      Str out = Interpreter(TemplateLimits{}, globals).Run(body);
      Rendered r;
      r.trusted.assign(out.text.size(), '\1');
      for (size_t i = 0; i < out.outside.size(); ++i) r.trusted[i] = out.outside[i] == '\0' ? '\1' : '\0';
      r.text = std::move(out.text);
      return r;
    } catch (const TemplateError& e) {
      return StatusOf(e);
    }
  }
};

ChatTemplate::ChatTemplate(std::unique_ptr<State> state) : state_(std::move(state)) {}
ChatTemplate::~ChatTemplate() = default;

Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::Parse(std::string_view source) {
  if (source.size() > kMaxSource) return ResourceLimit("a chat template of {} bytes; at most {}", source.size(), kMaxSource);
  if (!IsValidUtf8(source)) return BadInput("the chat template is no valid UTF-8");
  auto state = std::make_unique<State>();
  try {
    state->body = ParseTemplate(source);
  } catch (const TemplateError& e) {
    return StatusOf(e);
  }
  return std::shared_ptr<const ChatTemplate>(new ChatTemplate(std::move(state)));
}

Result<ChatTemplate::Rendered> ChatTemplate::Render(const ChatInput& input) const {
  auto globals = std::make_shared<Scope>();
  try {
    AddGlobals(globals.get());
    globals->Set("messages", ValueFromJson(input.messages_json, false));
    globals->Set("tools", input.tools_json.empty() ? Value::None() : ValueFromJson(input.tools_json, false));
    globals->Set("documents", Value::None());
    globals->Set("bos_token", Value::String(input.bos_token));
    globals->Set("eos_token", Value::String(input.eos_token));
    globals->Set("add_generation_prompt", Value::Bool(input.add_generation_prompt));
    if (!input.extra_json.empty()) {
      const Value extra = ValueFromJson(input.extra_json, false);
      if (!extra.Is(Value::Kind::kDict)) return BadInput("the further variables of a chat template are no JSON object");
      for (const auto& [key, value] : extra.dict()) globals->Set(key.text(), value);
    }
  } catch (const TemplateError& e) {
    return StatusOf(e);
  }
  return state_->Run(globals);
}

Result<ChatTemplate::Rendered> ChatTemplate::RenderVariables(std::string_view json) const {
  auto globals = std::make_shared<Scope>();
  try {
    AddGlobals(globals.get());
    const Value variables = ValueFromJson(json, false);
    if (!variables.Is(Value::Kind::kDict)) return BadInput("the variables of a template are no JSON object");
    for (const auto& [key, value] : variables.dict()) globals->Set(key.text(), value);
  } catch (const TemplateError& e) {
    return StatusOf(e);
  }
  return state_->Run(globals);
}

std::string MessagesJson(const std::vector<std::pair<std::string, std::string>>& messages) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [role, content] : messages) list.push_back({{"role", role}, {"content", content}});
  return list.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace tenon::text
