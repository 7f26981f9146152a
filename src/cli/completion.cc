// tenon completion: scripts for bash, zsh and fish, made from the options themselves.
#include "cli/command.h"

namespace tenon::cli {
namespace {

std::vector<std::string> Flags(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& w : words) text += (text.empty() ? "" : " ") + w;
  return text;
}

std::string Bash(const Parser& parser, bool zsh) {
  std::vector<std::string> names = {"help"};
  std::string cases;
  for (const auto& [app, run] : parser.runners) {
    names.push_back(app->get_name());
    cases += fmt::format("    {}) words=\"{}\" ;;\n", app->get_name(), Joined(Flags(*app)));
  }
  std::string text = zsh ? "autoload -U +X bashcompinit && bashcompinit\n" : "";
  text += "_tenon() {\n  local current=\"${COMP_WORDS[COMP_CWORD]}\" words=\"\"\n";
  text += "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    COMPREPLY=($(compgen -W \"" + Joined(names) +
          "\" -- \"$current\"))\n    return\n  fi\n";
  text += "  case \"${COMP_WORDS[1]}\" in\n" + cases + "    help) words=\"" + Joined(names) + "\" ;;\n  esac\n";
  text += "  case \"$current\" in\n    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$current\")) ;;\n";
  text += "    *) COMPREPLY=($(compgen -f -- \"$current\")) ;;\n  esac\n}\ncomplete -o filenames -F _tenon tenon\n";
  return text;
}

std::string Fish(const Parser& parser) {
  std::string text = "complete -c tenon -n __fish_use_subcommand -a help -d 'help on a command'\n";
  for (const auto& [app, run] : parser.runners) {
    text += fmt::format("complete -c tenon -n __fish_use_subcommand -a {} -d '{}'\n", app->get_name(), app->get_description());
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        std::string description = option->get_description();
        std::erase(description, '\'');
        text += fmt::format("complete -c tenon -n '__fish_seen_subcommand_from {}' -l {} -d '{}'\n", app->get_name(), name,
                            description);
      }
    }
  }
  return text;
}

Status Run(const std::string& shell, Context& context) {
  const auto parser = MakeParser();
  const std::string script = shell == "fish" ? Fish(*parser) : Bash(*parser, shell == "zsh");
  context.Document({{"shell", shell}, {"script", script}});
  context.Say(script);
  return Status::Ok();
}

}  // namespace

Command Make_completion() {
  return {"completion", "print a completion script for a shell", "tenon completion bash > /etc/bash_completion.d/tenon",
          [](CLI::App& app) {
            auto shell = std::make_shared<std::string>();
            app.add_option("SHELL", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
            return [shell](Context& context) { return Run(*shell, context); };
          }};
}

}  // namespace tenon::cli
