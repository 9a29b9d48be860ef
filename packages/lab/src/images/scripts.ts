import { quoteWord } from "./quote.ts";

/** Scripts that images have in the place of programs, or before them. Pure. */

/** busybox' name for its shell. */
export const ASH = `#!/bin/sh
exec /bin/sh "$@"
`;

/**
 * nginx as its image has it: it serves /usr/share/nginx/html unless there is another configuration, where Debian's serves a
 * site of its own. With a root that is read-only, Debian's stays.
 */
export const NGINX = `#!/bin/sh
rm -f /etc/nginx/sites-enabled/default 2>/dev/null
if [ -z "$(ls -A /etc/nginx/conf.d 2>/dev/null)" ]; then
  mkdir -p /etc/nginx/conf.d 2>/dev/null
  cat 2>/dev/null > /etc/nginx/conf.d/default.conf <<'END'
server {
  listen 80;
  listen [::]:80;
  server_name localhost;
  location / {
    root /usr/share/nginx/html;
    index index.html index.htm;
  }
}
END
fi
exec "$(PATH=/usr/sbin:/usr/bin:/sbin:/bin command -v nginx)" "$@"
`;

/** A program of Fairlead under another name, whatever its arguments are. */
export function standIn(program: readonly string[]): string {
  return `#!/bin/sh\nexec ${program.map(quoteWord).join(" ")}\n`;
}
