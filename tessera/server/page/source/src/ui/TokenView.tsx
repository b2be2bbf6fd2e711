// The tokens of an answer, coloured by their probability. One token is in the tab order; arrows move among them, Enter
// or a click shows the alternatives, and choosing one continues the answer from there on a new branch.
import { Fragment } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { branchAtToken } from '../chat/actions';
import * as db from '../store/db';
import type { Message, Token, TokenChoice } from '../types';
import { tokenView } from './view_state';

const kSteps = [0.95, 0.8, 0.5, 0.25, 0.1]; // a token at or above the first is of class p0, below the last of p5

export const probability = ({ logprob }: TokenChoice): number => Math.exp(logprob);

function classOf(token: Token): string {
  const level = kSteps.filter((step) => probability(token) < step).length;
  const isNewline = /^\s*\n\s*$/.test(token.text);
  return `token p${level}${token.part === 'reasoning' ? ' thought' : ''}${isNewline ? ' newline' : ''}`;
}

function percent(p: number): string {
  return p >= 0.0995 || p === 0 ? `${Math.round(p * 100)} %` : p >= 0.001 ? `${(p * 100).toFixed(1)} %` : '< 0.1 %';
}

// Tokens are spans and no buttons: a button is a box of its own and does not break into lines.

/** A token's text with what is invisible in it made visible. */
const visible = (text: string) => text.replaceAll(' ', '␣').replaceAll('\n', '⏎').replaceAll('\t', '⇥') || '(nothing)';

/** A piece of a character, as some tokens are, cannot be the end of a text. */
const isWholeText = ({ bytes, text }: TokenChoice) =>
  text !== '' && !text.includes('\uFFFD') && (bytes?.length ?? 1) > 0;

interface AlternativesProps {
  message: Message;
  tokens: Token[];
  at: number;
  isBusy: boolean;
}

function Alternatives({ message, tokens, at, isBusy }: AlternativesProps) {
  const token = tokens[at]!;
  const choices = token.top.some(({ text }) => text === token.text) ? token.top : [token, ...token.top];
  const choose = (choice: TokenChoice) => {
    tokenView.value = null;
    void branchAtToken(message, tokens, at, { ...choice, part: token.part, at: token.at, top: token.top });
  };
  return (
    <div class="alternatives" id="alternatives">
      <p>
        Token {at + 1} of {tokens.length}: <code dir="auto">{visible(token.text)}</code>, {percent(probability(token))}
        {token.part === 'reasoning' && ', in the reasoning'}. Choose another to continue from there.
      </p>
      <ul>
        {choices.map((choice) => {
          const isTaken = choice.text === token.text;
          return (
            <li key={choice.text}>
              <button
                type="button"
                disabled={isBusy || isTaken || token.part === 'tool' || !isWholeText(choice)}
                onClick={() => choose(choice)}
              >
                <code dir="auto">{visible(choice.text)}</code>
                <meter min={0} max={1} value={probability(choice)} aria-hidden="true" />
                <span>{percent(probability(choice))}</span>
                {isTaken && <span class="taken">taken</span>}
              </button>
            </li>
          );
        })}
      </ul>
    </div>
  );
}

export function TokenView({ message, isBusy }: { message: Message; isBusy: boolean }) {
  const [tokens, setTokens] = useState<Token[] | null>(null);
  const [current, setCurrent] = useState(0);
  const [chosen, setChosen] = useState<number | null>(null);
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => void db.tokensOf(message.id).then(setTokens), [message.id, message.state]);

  if (!tokens) return <p class="muted">Loading the tokens</p>;
  if (tokens.length === 0) {
    return (
      <p class="note">
        This answer has no probabilities. Switch on “Token probabilities” in the settings, then ask again.
      </p>
    );
  }
  const move = (to: number) => {
    const next = Math.min(Math.max(to, 0), tokens.length - 1);
    setCurrent(next);
    list.current!.querySelectorAll<HTMLElement>('.token')[next]!.focus();
  };
  const toggle = (i: number) => setChosen(i === chosen ? null : i);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault();
      return toggle(current);
    }
    const isRightToLeft = getComputedStyle(list.current!).direction === 'rtl';
    const steps: Record<string, number> = {
      ArrowRight: isRightToLeft ? -1 : 1,
      ArrowLeft: isRightToLeft ? 1 : -1,
      ArrowDown: 10,
      ArrowUp: -10,
      Home: -tokens.length,
      End: tokens.length,
    };
    const by = steps[event.key];
    if (by === undefined) return;
    event.preventDefault();
    move(current + by);
  };
  return (
    <div class="token-view">
      <div class="legend" aria-hidden="true">
        {['95 % or more', '80', '50', '25', '10', 'less'].map((text, i) => (
          <span key={text} class={`token p${i}`}>
            {text}
          </span>
        ))}
      </div>
      <div
        ref={list}
        class="tokens"
        dir="auto"
        role="group"
        aria-label="Tokens. Arrow keys move, Enter shows alternatives."
        onKeyDown={onKeyDown}
      >
        {tokens.map((token, i) => (
          <Fragment key={i}>
            {i > 0 && token.part !== tokens[i - 1]!.part && <span class="part-end" />}
            <span
              role="button"
              tabIndex={i === current ? 0 : -1}
              class={classOf(token)}
              aria-expanded={i === chosen}
              aria-label={visible(token.text)}
              title={percent(probability(token))}
              onFocus={() => setCurrent(i)}
              onClick={() => toggle(i)}
            >
              {token.text}
            </span>
          </Fragment>
        ))}
      </div>
      {chosen !== null && tokens[chosen] && (
        <Alternatives message={message} tokens={tokens} at={chosen} isBusy={isBusy} />
      )}
    </div>
  );
}
