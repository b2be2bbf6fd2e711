// Editing a text in another program. Called by the line editor for Ctrl-G.
#pragma once

#include <string>
#include <string_view>

#include "tessera/base/result.h"
#include "tessera/cli/terminal.h"

namespace tessera::cli {

/// The command of the editor: $VISUAL, else $EDITOR, else vi or nano if $PATH has them; empty: there is none.
std::string external_editor_command();

/// Writes the text to a private file, runs the command on it with the terminal's first modes, and returns the new text
/// without a line break at its end. The shell splits the command, as in "code --wait". Errors: not_found (no editor),
/// io, format (the editor failed), limit (more than 8 MiB).
Result<std::string> edit_externally(Terminal& terminal, std::string_view text);

}  // namespace tessera::cli
