// The sampling fields: name, range and meaning of those that the page knows. The server's defaults come from /props, as
// do further fields that only it knows; they are shown without a range.
import type { Props } from './api/server';
import type { ParameterValue } from './types';

export interface Field {
  name: string;
  label: string;
  help: string;
  group: 'Main' | 'Cutting' | 'Repetition' | 'Special' | 'Other';
  kind: 'number' | 'integer' | 'boolean' | 'text';
  least?: number;
  most?: number;
  fallback: ParameterValue; // shown where /props does not name the field
}

const number = (
  group: Field['group'],
  name: string,
  label: string,
  least: number,
  most: number,
  fallback: number,
  help: string,
): Field => ({ group, name, label, least, most, fallback, help, kind: 'number' });
const integer = (
  group: Field['group'],
  name: string,
  label: string,
  least: number,
  fallback: number,
  help: string,
  most = 2 ** 31 - 1,
): Field => ({ group, name, label, least, most, fallback, help, kind: 'integer' });

const kFields: Field[] = [
  number(
    'Main',
    'temperature',
    'Temperature',
    0,
    100,
    0.8,
    'Higher is more varied; 0 always takes the most probable token.',
  ),
  integer('Main', 'max_tokens', 'Longest answer', -1, -1, 'In tokens; -1: as long as the context allows.'),
  integer('Main', 'seed', 'Seed', -1, -1, 'The same seed gives the same answer; -1: a random one.', 2 ** 32 - 1),
  integer('Cutting', 'top_k', 'Top k', -1, 40, 'Keeps the k most probable tokens; 0: all.'),
  number('Cutting', 'top_p', 'Top p', 0, 1, 0.95, 'Keeps the most probable tokens that make up this share; 1: all.'),
  number(
    'Cutting',
    'min_p',
    'Min p',
    0,
    1,
    0.05,
    'Drops tokens less probable than this share of the best one; 0: none.',
  ),
  number('Cutting', 'typical_p', 'Typical p', 0, 1, 1, 'Keeps tokens of typical information; 1: off.'),
  number(
    'Cutting',
    'top_n_sigma',
    'Top n sigma',
    -1,
    100,
    -1,
    'Keeps logits within n standard deviations of the best; -1: off.',
  ),
  integer('Repetition', 'repeat_last_n', 'Look back', -1, 64, 'Tokens that penalties look at; -1: the whole context.'),
  number('Repetition', 'repeat_penalty', 'Repeat penalty', 0, 100, 1, 'Above 1 makes repeated tokens less probable.'),
  number(
    'Repetition',
    'presence_penalty',
    'Presence penalty',
    -100,
    100,
    0,
    'Subtracted once from the logit of a token that has occurred.',
  ),
  number(
    'Repetition',
    'frequency_penalty',
    'Frequency penalty',
    -100,
    100,
    0,
    'Subtracted for each time that a token has occurred.',
  ),
  number('Repetition', 'dry_multiplier', 'DRY multiplier', 0, 100, 0, 'Penalty of repeated sequences; 0: off.'),
  number('Repetition', 'dry_base', 'DRY base', 0, 100, 1.75, 'Growth of that penalty with the length of the sequence.'),
  integer(
    'Repetition',
    'dry_allowed_length',
    'DRY allowed length',
    0,
    2,
    'Longest sequence that may be repeated freely.',
  ),
  integer(
    'Repetition',
    'dry_penalty_last_n',
    'DRY look back',
    -1,
    64,
    'Tokens that DRY looks at; -1: the whole context.',
  ),
  number(
    'Special',
    'xtc_probability',
    'XTC probability',
    0,
    1,
    0,
    'How often the most probable tokens are left out; 0: never.',
  ),
  number('Special', 'xtc_threshold', 'XTC threshold', 0, 1, 0.1, 'Tokens above it may be left out.'),
  number(
    'Special',
    'dynatemp_range',
    'Dynamic range',
    0,
    100,
    0,
    'The temperature varies by this much with the entropy; 0: not.',
  ),
  number('Special', 'dynatemp_exponent', 'Dynamic exponent', 0, 100, 1, 'Shape of that variation.'),
  integer('Special', 'mirostat', 'Mirostat', 0, 0, 'Version 1 or 2; 0: off.', 2),
  number('Special', 'mirostat_tau', 'Mirostat tau', 0, 100, 5, 'Wanted surprise per token.'),
  number('Special', 'mirostat_eta', 'Mirostat eta', 0, 100, 0.1, 'How fast it adapts.'),
  integer('Special', 'min_keep', 'Keep at least', 0, 0, 'Tokens that every cut leaves.'),
  {
    group: 'Special',
    name: 'ignore_eos',
    label: 'Ignore the end token',
    kind: 'boolean',
    fallback: false,
    help: 'The answer ends by its length only.',
  },
];

// Parts of a request that this page sets itself, or that are no settings.
const kNotOffered = new Set([
  'stream',
  'n_predict',
  'max_tokens',
  'n_probs',
  'timings_per_token',
  'post_sampling_probs',
  'backend_sampling',
  'reasoning_in_content',
  'chat_format',
  'reasoning_format',
  'generation_prompt',
  'n_keep',
  'n_discard',
  'grammar',
  'grammar_lazy',
  'speculative.types',
  'adaptive_target',
  'adaptive_decay',
  'return_progress',
]);

export function fieldsOf(props: Props | null): Field[] {
  const params = props?.default_generation_settings?.params ?? {};
  const known = kFields.map((field): Field => {
    const value = params[field.name === 'max_tokens' && !('max_tokens' in params) ? 'n_predict' : field.name];
    return typeof value === typeof field.fallback ? { ...field, fallback: rounded(value as ParameterValue) } : field;
  });
  const names = new Set(kFields.map(({ name }) => name));
  const others = Object.entries(params)
    .filter(
      ([name, value]) =>
        !names.has(name) && !kNotOffered.has(name) && ['number', 'boolean', 'string'].includes(typeof value),
    )
    .map(([name, value]): Field => ({
      name,
      label: name.replaceAll('_', ' '),
      help: '',
      group: 'Other',
      fallback: value as ParameterValue,
      kind: typeof value === 'string' ? 'text' : (typeof value as 'number' | 'boolean'),
    }));
  return [...known, ...others];
}

// A default of 0.95 may arrive as the float next to it, 0.949999988; a random seed as the largest one.
function rounded(value: ParameterValue): ParameterValue {
  if (value === 2 ** 32 - 1) return -1;
  return typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(6)) : value;
}

/** The value of a text in a field's box, or an error; undefined: blank, the server's default. */
export function readField(field: Field, text: string): { value: ParameterValue | undefined } | { error: string } {
  if (text.trim() === '') return { value: undefined };
  if (field.kind === 'text') return { value: text };
  const value = Number(text.replace(',', '.'));
  if (!Number.isFinite(value)) return { error: 'Not a number' };
  if (field.kind === 'integer' && !Number.isInteger(value)) return { error: 'Not an integer' };
  const { least = -Infinity, most = Infinity } = field;
  if (value < least || value > most) return { error: `Want ${least} to ${most}` };
  return { value };
}
