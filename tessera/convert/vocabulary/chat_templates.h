// The chat templates in the folder of a tokenizer.
#pragma once

#include "tessera/convert/vocabulary/tokenizer_folder.h"
#include "tessera/convert/vocabulary/vocabulary.h"

namespace tessera::convert {

/// Adds the templates of the first of these that has any: tokenizer_config.json; chat_template.jinja with
/// additional_chat_templates/*.jinja; chat_template.json. A template that cannot be parsed is added too, with a warning
/// that names its line. Errors: format (chat_template is no text and no list of names and texts); those of reading
/// files.
Result<> add_chat_templates(const TokenizerFolder& folder, Vocabulary& vocabulary);

}  // namespace tessera::convert
