// Icons, drawn on a grid of 24 by strokes of the text's colour. They are decoration: the button beside has the words.
const kShapes = {
  menu: 'M4 6h16M4 12h16M4 18h16',
  plus: 'M12 5v14M5 12h14',
  search: 'M11 4a7 7 0 1 0 0 14a7 7 0 0 0 0-14zM20 20l-4-4',
  settings: 'M4 7h10M18 7h2M4 17h2M10 17h10M16 4.5v5M8 14.5v5',
  help: 'M9 9a3 3 0 1 1 4.5 2.6c-1 .6-1.5 1.2-1.5 2.4M12 17.5v.01M12 3a9 9 0 1 0 0 18a9 9 0 0 0 0-18z',
  sun:
    'M12 8a4 4 0 1 0 0 8a4 4 0 0 0 0-8zM12 2v2M12 20v2M2 12h2M20 12h2' +
    'M5 5l1.4 1.4M17.6 17.6L19 19M5 19l1.4-1.4M17.6 6.4L19 5',
  moon: 'M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5z',
  system: 'M3 5h18v11H3zM9 20h6M12 16v4',
  close: 'M6 6l12 12M18 6L6 18',
  send: 'M12 19V5M6 11l6-6l6 6',
  stop: 'M7 7h10v10H7z',
  copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
  check: 'M5 12.5l4.5 4.5L19 7.5',
  edit: 'M4 20h4L19 9l-4-4L4 16zM13 7l4 4',
  again: 'M20 11a8 8 0 1 0-2.3 6.3M20 5v6h-6',
  more: 'M5.500 12h1M11.500 12h1M17.500 12h1',
  forward: 'M5 12h14M13 6l6 6l-6 6',
  trash: 'M5 7h14M10 11v6M14 11v6M6 7l1 13h10l1-13M9 7V4h6v3',
  left: 'M14 6l-6 6l6 6',
  right: 'M10 6l6 6l-6 6',
  down: 'M12 5v14M6 13l6 6l6-6',
  attach: 'M20 11.5l-8 8a5 5 0 0 1-7-7l8.5-8.5a3.3 3.3 0 0 1 4.7 4.7L9.700 17a1.700 1.700 0 0 1-2.400-2.400L15 7',
  tokens: 'M4 5h7v6H4zM14 5h6v6h-6zM4 14h4v5H4zM11 14h9v5h-9z',
  download: 'M12 4v11M7 11l5 5l5-5M5 20h14',
  upload: 'M12 16V5M7 9l5-5l5 5M5 20h14',
  tool: 'M14.5 6.500a4 4 0 0 0-5.300 5L4 16.800V20h3.200l5.300-5.200a4 4 0 0 0 5-5.300L15 12l-3-3z',
  thought: 'M12 4a6 6 0 0 0-3.500 10.900V17h7v-2.100A6 6 0 0 0 12 4zM9.500 20.500h5',
  model: 'M5 5h6v6H5zM13 5h6v6h-6zM13 13h6v6h-6z',
} as const;

export type IconName = keyof typeof kShapes;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={kShapes[name]} />
    </svg>
  );
}

interface IconButtonProps {
  icon: IconName;
  label: string;
  onClick: () => void;
  class?: string;
  disabled?: boolean;
  keys?: string;
  pressed?: boolean;
  expanded?: boolean;
  action?: string; // for the keyboard: see keys.ts
}

/** A button that shows only an icon; its words are its name and its tooltip. */
export function IconButton({
  icon,
  label,
  onClick,
  disabled,
  keys,
  pressed,
  expanded,
  action,
  ...rest
}: IconButtonProps) {
  return (
    <button
      type="button"
      class={`icon-button ${rest.class ?? ''}`}
      aria-label={label}
      title={keys ? `${label} (${keys})` : label}
      onClick={onClick}
      disabled={disabled ?? false}
      {...(pressed === undefined ? {} : { 'aria-pressed': pressed })}
      {...(expanded === undefined ? {} : { 'aria-expanded': expanded })}
      {...(action ? { 'data-action': action } : {})}
    >
      <Icon name={icon} />
    </button>
  );
}
