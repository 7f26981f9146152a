// tenon knobs: every environment variable, collected from the options themselves.
#include <cstdlib>

#include "cli/command.h"

namespace tenon::cli {
namespace {

struct Knob {
  std::string meaning;
  std::string commands;
};

Status Run(Context& context) {
  std::map<std::string, Knob> knobs = {
      {"TENON_ISA",
       {"Largest instruction set to use: baseline, avx2, avx512, avx512vnni, avx512bf16, avx512fp16, amx, native", "all"}},
      {"XDG_CACHE_HOME", {"Models compiled on the fly are kept in its folder 'tenon'", "all"}},
  };
  const auto parser = MakeParser();
  for (const auto& [app, run] : parser->runners) {
    for (const CLI::Option* option : app->get_options()) {
      if (option->get_envname().empty()) continue;
      Knob& knob = knobs[option->get_envname()];
      knob.meaning = fmt::format("--{}: {}", option->get_lnames()[0], option->get_description());
      knob.commands += (knob.commands.empty() ? "" : " ") + app->get_name();
    }
  }
  Json rows = Json::array();
  std::vector<std::vector<std::string>> table = {{"variable", "value", "meaning"}};
  for (const auto& [name, knob] : knobs) {
    const char* value = std::getenv(name.c_str());
    rows.push_back({{"name", name},
                    {"value", value != nullptr ? Json(value) : Json()},
                    {"meaning", knob.meaning},
                    {"commands", knob.commands}});
    table.push_back({name, value != nullptr ? value : "-", knob.meaning});
  }
  context.Document({{"knobs", rows}});
  context.Say(Table(table));
  return Status::Ok();
}

}  // namespace

Command Make_knobs() {
  return {"knobs", "list every environment variable", "tenon knobs",
          [](CLI::App&) { return [](Context& context) { return Run(context); }; }};
}

}  // namespace tenon::cli
