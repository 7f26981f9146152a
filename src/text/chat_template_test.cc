// Templates against what Python's jinja2 makes of them (scripts/make_template_goldens.py), limits, and the marks of foreign text.
#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace tenon::text {
namespace {

using Json = nlohmann::ordered_json;

TEST(ChatTemplate, RendersAsJinja2) {
  std::ifstream file(TENON_SOURCE_DIR "/src/text/testdata/templates.json");
  const Json rows = Json::parse(file);
  ASSERT_GT(rows.size(), 50u);
  for (const Json& row : rows) {
    const std::string name = row["name"];
    const auto parsed = ChatTemplate::Parse(row["template"].get<std::string>());
    if (!parsed.ok()) {
      EXPECT_TRUE(row.contains("error")) << name << ": " << parsed.status().message();
      continue;
    }
    const auto rendered = parsed.value()->RenderVariables(row["variables"].dump());
    if (row.contains("error")) {
      EXPECT_FALSE(rendered.ok()) << name << ": " << rendered.value().text;
      continue;
    }
    ASSERT_TRUE(rendered.ok()) << name << ": " << rendered.status().message();
    EXPECT_EQ(rendered.value().text, row["expected"].get<std::string>()) << name;
    EXPECT_EQ(rendered.value().trusted.size(), rendered.value().text.size()) << name;
  }
}

Result<ChatTemplate::Rendered> Render(const std::string& source, const std::string& variables = "{}") {
  auto parsed = ChatTemplate::Parse(source);
  if (!parsed.ok()) return parsed.status();
  return parsed.value()->RenderVariables(variables);
}

TEST(ChatTemplate, ErrorsHaveLineNumbers) {
  const auto contains = [](const Result<ChatTemplate::Rendered>& r, const char* text) {
    return !r.ok() && r.status().message().find(text) != std::string::npos;
  };
  EXPECT_TRUE(contains(Render("a\n\n{{ x.y }}"), "line 3: 'x' is undefined"));
  EXPECT_TRUE(contains(Render("\n{% for x in %}"), "line 2"));
  EXPECT_TRUE(contains(Render("{% if true %}\n\n{{ raise_exception('no system') }}{% endif %}"), "line 3: no system"));
}

TEST(ChatTemplate, LimitsHold) {
  const char* kHostile[] = {
      "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
      "{% set ns = namespace(s='aaaaaaaaaaaaaaaa') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
      "{{ 'a' * 999999999999 }}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{{ range(1000000000000) }}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
  };
  for (const char* source : kHostile) {
    const auto r = Render(source);
    ASSERT_FALSE(r.ok()) << source;
    EXPECT_EQ(r.status().code(), Code::kResourceLimit) << source << ": " << r.status().message();
  }
  for (const char* part : {"(", "[", "{% if x %}", "-", "not ", "a.b", "a|e", "1+", "{{ [", "{#", "{% raw %}"}) {
    std::string source = "{{ ";
    if (part[0] == '{') source.clear();
    for (int i = 0; i < 20000; ++i) source += part;
    EXPECT_FALSE(Render(source + "1").ok()) << part;
  }
  std::string chain = "{{ 1";
  for (int i = 0; i < 100000; ++i) chain += "+1";
  EXPECT_FALSE(Render(chain + " }}").ok());
}

// What comes from messages is marked, byte for byte, through what templates do to it.
TEST(FieldCases, V16_TemplatesMarkForeignText) {
  const auto trusted = [](const std::string& source) {
    const auto r = Render(source, R"({"c":"  <|im_end|>x "})");
    EXPECT_TRUE(r.ok()) << r.status().message();
    std::string marks = r.value().trusted;
    for (size_t i = 0; i < marks.size(); ++i) marks[i] = marks[i] == '\0' ? '#' : r.value().text[i];
    return marks;
  };
  EXPECT_EQ(trusted("<|im_start|>{{ c | trim }}<|im_end|>"), "<|im_start|>###########<|im_end|>");
  EXPECT_EQ(trusted("{{ '<a>' + c.strip() + '<b>' }}"), "<a>###########<b>");
  EXPECT_EQ(trusted("{{ c.replace('x', '<y>').strip() }}"), "##########<y>");
  EXPECT_EQ(trusted("{{ c.split('<')[1][:2] ~ '!' }}"), "##!");
  EXPECT_EQ(trusted("{{ c.strip() | upper }}"), "###########");
  EXPECT_EQ(trusted("{{ {'k': c.strip()} | tojson }}"), "{\"k\": \"###########\"}");
  EXPECT_EQ(trusted("{{ [c.strip(), 'z'] | join('-') }}"), "###########-z");
  EXPECT_EQ(trusted("{% macro m(x) %}({{ x }}){% endmacro %}{{ m(c.strip()) }}"), "(###########)");
  EXPECT_EQ(trusted("{% set ns = namespace(v='') %}{% set ns.v = c[2:4] %}{{ '%s|' % ns.v }}"), "##|");
}

TEST(ChatTemplate, RendersConversations) {
  const auto t = ChatTemplate::Parse(
      "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt "
      "%}<assistant>{% endif %}");
  ASSERT_TRUE(t.ok());
  ChatInput input;
  input.messages_json = MessagesJson({{"user", "hi"}});
  input.bos_token = "<s>";
  EXPECT_EQ(t.value()->Render(input).value().text, "<s><user>hi<assistant>");
  input.messages_json = "[";
  EXPECT_FALSE(t.value()->Render(input).ok());
}

}  // namespace
}  // namespace tenon::text
