// Settings of the open conversation (system prompt, sampling, schema, tools) and of the page (looks, keys).
import { useSignal } from '@preact/signals';
import { parameters, say, setParameters } from '../chat/actions';
import { props } from '../chat/state';
import { fieldsOf, readField, type Field } from '../sampling';
import { defaultParameters, hasLetterKeys, sendsOnEnter, theme, wrapsCode, type Theme } from '../settings';
import { checkObject, checkSchema, checkTools, type SchemaProblem } from '../text/schema';
import { kNoParameters } from '../types';
import { Icon, type IconName } from './icons';
import { toggleSettings } from './keys';

function setSampling(name: string, value: number | boolean | string | undefined): void {
  const { [name]: _old, ...rest } = parameters().sampling;
  void setParameters({ sampling: value === undefined ? rest : { ...rest, [name]: value } });
}

function BooleanRow({ field }: { field: Field }) {
  const value = parameters().sampling[field.name];
  return (
    <label class="check" title={field.help}>
      <input
        type="checkbox"
        checked={Boolean(value ?? field.fallback)}
        onChange={(event) =>
          setSampling(
            field.name,
            event.currentTarget.checked === field.fallback ? undefined : event.currentTarget.checked,
          )
        }
      />
      {field.label}
    </label>
  );
}

function NumberRow({ field }: { field: Field }) {
  const stored = parameters().sampling[field.name];
  const typed = useSignal<string | null>(null); // while it is not valid
  const result = typed.value === null ? null : readField(field, typed.value);
  const error = result && 'error' in result ? result.error : null;
  const id = `field-${field.name}`;
  return (
    <div class={`field ${stored === undefined ? '' : 'changed'}`}>
      <label for={id}>{field.label}</label>
      <input
        id={id}
        inputMode={field.kind === 'text' ? 'text' : 'decimal'}
        autocomplete="off"
        placeholder={`${field.fallback}`}
        value={typed.value ?? (stored === undefined ? '' : String(stored))}
        aria-invalid={error !== null}
        aria-describedby={`${id}-help`}
        onInput={(event) => {
          const text = event.currentTarget.value;
          const read = readField(field, text);
          typed.value = text;
          if ('value' in read) setSampling(field.name, read.value);
        }}
        onBlur={() => {
          if (!error) typed.value = null;
        }}
      />
      <p class={error ? 'problem' : 'help'} id={`${id}-help`}>
        {error ?? field.help} {!error && <>Default: {String(field.fallback)}.</>}
      </p>
    </div>
  );
}

function Sampling() {
  const fields = fieldsOf(props.value);
  const groups = [...new Set(fields.map(({ group }) => group))];
  return (
    <>
      {groups.map((group) => {
        const rows = fields
          .filter((field) => field.group === group)
          .map((field) =>
            field.kind === 'boolean' ? (
              <BooleanRow key={field.name} field={field} />
            ) : (
              <NumberRow key={field.name} field={field} />
            ),
          );
        if (group === 'Main')
          return (
            <div key={group} class="fields">
              {rows}
            </div>
          );
        const nChanged = fields.filter(
          (field) => field.group === group && parameters().sampling[field.name] !== undefined,
        ).length;
        return (
          <details key={group}>
            <summary>
              {group}
              {nChanged > 0 && <span class="badge">{nChanged} changed</span>}
            </summary>
            <div class="fields">{rows}</div>
          </details>
        );
      })}
    </>
  );
}

interface JsonBoxProps {
  name: 'schema' | 'tools' | 'extra';
  label: string;
  help: string;
  placeholder: string;
  check: (text: string) => SchemaProblem | null;
}

function JsonBox({ name, label, help, placeholder, check }: JsonBoxProps) {
  const text = parameters()[name];
  const problem = check(text);
  return (
    <div class="stack">
      <label for={`box-${name}`}>{label}</label>
      <textarea
        id={`box-${name}`}
        class="code-box"
        dir="ltr"
        rows={5}
        spellcheck={false}
        placeholder={placeholder}
        value={text}
        aria-invalid={problem !== null}
        aria-describedby={`box-${name}-help`}
        onInput={(event) => void setParameters({ [name]: event.currentTarget.value })}
      />
      {problem ? (
        <p class="problem" id={`box-${name}-help`}>
          At {problem.where}: {problem.message}.
        </p>
      ) : (
        <p class="help" id={`box-${name}-help`}>
          {text.trim() ? 'No mistakes found.' : help}
        </p>
      )}
    </div>
  );
}

const kThemes: [Theme, string, IconName][] = [
  ['light', 'Light', 'sun'],
  ['dark', 'Dark', 'moon'],
  ['system', 'System', 'system'],
];

function PageSettings() {
  return (
    <section>
      <h3>This browser</h3>
      <div class="segments" role="group" aria-label="Colours">
        {kThemes.map(([value, label, icon]) => (
          <button key={value} type="button" aria-pressed={theme.value === value} onClick={() => (theme.value = value)}>
            <Icon name={icon} /> {label}
          </button>
        ))}
      </div>
      <label class="check">
        <input
          type="checkbox"
          checked={sendsOnEnter.value}
          onChange={(event) => (sendsOnEnter.value = event.currentTarget.checked)}
        />{' '}
        Enter sends the message
      </label>
      <label class="check">
        <input
          type="checkbox"
          checked={wrapsCode.value}
          onChange={(event) => (wrapsCode.value = event.currentTarget.checked)}
        />{' '}
        Wrap long lines of code
      </label>
      <label class="check">
        <input
          type="checkbox"
          checked={hasLetterKeys.value}
          onChange={(event) => (hasLetterKeys.value = event.currentTarget.checked)}
        />{' '}
        Keys without Alt work outside of text boxes
      </label>
      <p class="help">
        Page {document.querySelector<HTMLMetaElement>('meta[name=page-version]')?.content}
        {props.value?.build_info && `, server ${props.value.build_info}`}.{' '}
        <a href="licences.txt" target="_blank">
          Licences
        </a>
      </p>
    </section>
  );
}

const kEfforts: [string, string][] = [
  ['', 'Server’s default'],
  ['none', 'Off'],
  ['low', 'Low'],
  ['medium', 'Medium'],
  ['high', 'High'],
];

export function SettingsPanel() {
  const current = parameters();
  return (
    <aside class="settings" aria-label="Settings">
      <header class="panel-head">
        <h2>Settings</h2>
        <button
          type="button"
          id="settings-close"
          class="icon-button"
          aria-label="Close the settings"
          onClick={toggleSettings}
        >
          <Icon name="close" />
        </button>
      </header>
      <div class="panel-body">
        <section>
          <h3>This conversation</h3>
          <div class="stack">
            <label for="system">System prompt</label>
            <textarea
              id="system"
              dir="auto"
              rows={4}
              placeholder="How the model should behave"
              value={current.system}
              onInput={(event) => void setParameters({ system: event.currentTarget.value })}
            />
          </div>
          <div class="stack">
            <label for="effort">Thinking before the answer</label>
            <select
              id="effort"
              value={current.effort}
              onChange={(event) => void setParameters({ effort: event.currentTarget.value })}
            >
              {kEfforts.map(([value, label]) => (
                <option key={value} value={value}>
                  {label}
                </option>
              ))}
            </select>
          </div>
          <label class="check">
            <input
              id="wants-tokens"
              type="checkbox"
              checked={current.wantsTokens}
              onChange={(event) => void setParameters({ wantsTokens: event.currentTarget.checked })}
            />
            Token probabilities, for the token view
          </label>
        </section>
        <section>
          <h3>Sampling</h3>
          <Sampling />
        </section>
        <section>
          <h3>Form of the answer</h3>
          <JsonBox
            name="schema"
            label="JSON schema"
            check={checkSchema}
            placeholder={'{"type": "object", "properties": {}}'}
            help="The answer will be JSON that satisfies it."
          />
          <JsonBox
            name="tools"
            label="Tools"
            check={checkTools}
            placeholder={'[{"type": "function", "function": {"name": "weather", "parameters": {}}}]'}
            help="Functions that the model may call. You fill in their results."
          />
          <JsonBox
            name="extra"
            label="Further fields"
            check={checkObject}
            placeholder={'{"stop": ["END"]}'}
            help="Merged into each request; see the server’s documentation."
          />
        </section>
        <div class="row">
          <button
            type="button"
            onClick={() => {
              defaultParameters.value = parameters();
              say('New conversations begin with these settings.');
            }}
          >
            Use for new conversations
          </button>
          <button type="button" onClick={() => void setParameters(kNoParameters)}>
            Reset
          </button>
        </div>
        <PageSettings />
      </div>
    </aside>
  );
}
