// Times: in lists how far away, elsewhere in the viewer's zone. Titles have the exact time in both.
const MINUTE = 60, HOUR = 3600, DAY = 86400;
function ago(at) {
  const seconds = Math.trunc((Date.now() - at) / 1000);
  const far = Math.abs(seconds);
  if (far >= 60 * DAY) return at.toLocaleDateString(undefined, { dateStyle: 'medium' });
  const [number, unit] = far < MINUTE ? [far, 's'] : far < HOUR ? [far / MINUTE, 'min']
    : far < 2 * DAY ? [far / HOUR, 'h'] : [far / DAY, 'd'];
  return seconds < 0 ? `in ${Math.trunc(number)} ${unit}` : `${Math.trunc(number)} ${unit} ago`;
}
function local(time) {
  const at = new Date(time.dateTime);
  if (Number.isNaN(at.getTime())) return;
  const exact = at.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
  if (time.className === 'ago') time.textContent = ago(at);
  else if (time.className === 'clock') time.textContent = clock(at);
  else time.textContent = exact;
  if (!time.title.startsWith(exact)) time.title = `${exact} · ${time.title}`;
}
function clock(at) {
  const isToday = Math.abs(Date.now() - at) < DAY * 1000;
  return isToday ? at.toLocaleTimeString(undefined, { timeStyle: 'short' })
    : at.toLocaleString(undefined, { dateStyle: 'short', timeStyle: 'short' });
}
const all = (root, selector, each) => root.querySelectorAll(selector).forEach(each);
setInterval(() => all(document, 'time.ago', local), 15000);

function element(name, text, className) {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

// A button beside each shortened id.
function copies(of) {
  const button = element('button', '', 'copy');
  button.type = 'button';
  // The texts that it copies are in the page that the row leads to, too.
  button.tabIndex = -1;
  button.setAttribute('aria-label', `Copy ${of.dataset.copy}`);
  button.addEventListener('click', async () => {
    // A page without encryption has no clipboard; the title has the whole text all the same.
    await navigator.clipboard?.writeText(of.dataset.copy);
    button.classList.add('copied');
    setTimeout(() => button.classList.remove('copied'), 1500);
  });
  of.after(button);
}

// Charts: the values under the pointer.
function hover(figure) {
  const plot = figure.querySelector('.plot');
  const drawing = figure.querySelector('svg.chart');
  const lines = [...figure.querySelectorAll('.legend [data-values]')]
    .map(({ dataset }) => ({ name: dataset.name, values: dataset.values.split(',') }));
  const steps = lines.length ? lines[0].values.length : 0;
  const bars = [...figure.querySelectorAll('.bars a')];
  const begin = Date.parse(figure.dataset.from), step = Number(figure.dataset.step);
  const tip = element('p', '', 'tip');
  tip.hidden = true;
  plot.append(tip);
  const count = steps || bars.length;
  const under = (event) => {
    const box = drawing.getBoundingClientRect();
    const part = (event.clientX - box.left) / box.width;
    return Math.min(count - 1, Math.max(0, steps ? Math.round(part * (count - 1)) : Math.floor(part * count)));
  };
  drawing.addEventListener('pointermove', (event) => {
    const at = under(event);
    const what = steps ? lines.map(({ name, values }) => `${name} ${values[at] || '–'}`).join(' · ')
      : bars[at].querySelector('title').textContent.split(': ').pop();
    tip.textContent = `${clock(new Date(begin + at * step))}: ${what}`;
    tip.hidden = false;
    const room = plot.clientWidth - tip.offsetWidth;
    const x = event.clientX - plot.getBoundingClientRect().left + 12;
    tip.style.left = `${Math.max(0, Math.min(room, x))}px`;
  });
  drawing.addEventListener('pointerleave', () => { tip.hidden = true; });
  if (bars.length) drag(figure, drawing, bars, under, begin, step);
}

// The histogram: a drag over several bars lists what arrived then.
function drag(figure, drawing, bars, under, begin, step) {
  let from = null;
  const range = (event) => [from, under(event)].sort((one, other) => one - other);
  const mark = ([first, last]) => bars.forEach((bar, at) => {
    bar.classList.toggle('dragged', at >= first && at <= last);
  });
  drawing.addEventListener('dragstart', (event) => event.preventDefault());
  drawing.addEventListener('pointerdown', (event) => {
    if (event.button === 0) from = under(event);
  });
  const forget = () => {
    from = null;
    mark([1, 0]);
  };
  drawing.addEventListener('pointermove', (event) => {
    if (from === null) return;
    if (event.buttons) mark(range(event));
    else forget();
  });
  drawing.addEventListener('pointercancel', forget);
  addEventListener('pointerup', (event) => {
    if (from === null) return;
    const [first, last] = range(event);
    const isHere = drawing.contains(event.target);
    forget();
    if (first === last || !isHere) return;
    const query = new URLSearchParams(figure.dataset.base);
    query.set('since', new Date(begin + first * step).toISOString());
    query.set('before', new Date(begin + (last + 1) * step).toISOString());
    location.search = query;
  });
}

// What a page and the panel have in common.
function enliven(root) {
  all(root, 'time[datetime]', local);
  all(root, '[data-copy]', copies);
  all(root, 'figure[data-from]', hover);
}
enliven(document);

// The panel: on a wide window a row opens beside its list. Escape closes it, and the arrows go to the next row.
const panel = document.getElementById('panel');
let shownRow = null;
let asked = null;
function mark(row) {
  shownRow?.classList.remove('shown');
  shownRow = row;
  row?.classList.add('shown');
}
function closePanel() {
  asked?.abort();
  if (!shownRow) return;
  panel.hidden = true;
  panel.replaceChildren();
  shownRow.querySelector('a.open')?.focus();
  mark(null);
}
function openPanel(row, link) {
  asked?.abort();
  asked = new XMLHttpRequest();
  mark(row);
  asked.open('GET', link.href);
  asked.responseType = 'document';
  asked.onerror = () => { location.href = link.href; };
  asked.onload = ({ target }) => {
    const main = target.response?.querySelector('#content');
    if (target.status !== 200 || !main) {
      location.href = link.href;
      return;
    }
    const ways = element('p', '', 'panel-ways');
    const page = element('a', 'Open as a page');
    page.href = link.href;
    const shut = element('button', 'Close', 'plain');
    shut.type = 'button';
    shut.addEventListener('click', closePanel);
    ways.append(page, shut);
    // The page's own address is that of its list, so links within the page lead to the page itself.
    all(main, 'a[href^="?"], a[href^="#"]', (it) => {
      it.href = new URL(it.getAttribute('href'), link.href).href;
    });
    panel.replaceChildren();
    // A document cannot have two elements of one id.
    all(main, '[id]', (it) => { if (document.getElementById(it.id)) it.removeAttribute('id'); });
    panel.replaceChildren(ways, ...main.childNodes);
    panel.hidden = false;
    panel.scrollTop = 0;
    enliven(panel);
    panel.focus();
  };
  asked.send();
}
document.addEventListener('click', (event) => {
  const link = event.target.closest('main a.open');
  if (!link || innerWidth < 1200 || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  openPanel(link.closest('tr'), link);
});

// Keys: / searches, Escape closes the panel, the arrows go through the rows while it is open.
document.addEventListener('keydown', (event) => {
  const isTyping = event.target.closest('input, select, textarea');
  if (event.key === '/' && !isTyping && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    document.getElementById('q')?.focus();
  } else if (event.key === 'Enter' && event.target.matches('.pick input')) {
    // A browser would press the first button below the list.
    event.preventDefault();
  } else if (event.key === 'Escape' && !isTyping) {
    closePanel();
  } else if (shownRow && !isTyping && !event.shiftKey && !event.ctrlKey && !event.altKey && !event.metaKey
    && !event.target.closest('pre, .table') && (event.key === 'ArrowDown' || event.key === 'ArrowUp')) {
    const next = event.key === 'ArrowDown' ? shownRow.nextElementSibling : shownRow.previousElementSibling;
    const link = next?.querySelector('a.open');
    if (link) {
      event.preventDefault();
      openPanel(next, link);
    }
  }
});

// Rows that can be chosen: how many are, and all of the page at once.
const choose = document.querySelector('form.choose');
if (choose) {
  const boxes = [...choose.querySelectorAll('tbody .pick input')];
  const whole = document.createElement('input');
  whole.type = 'checkbox';
  whole.setAttribute('aria-label', 'Choose all rows of this page');
  choose.querySelector('thead .pick')?.append(whole);
  const say = () => {
    const chosen = boxes.filter((box) => box.checked).length;
    choose.querySelector('.chosen').textContent = `${chosen} chosen:`;
    whole.checked = chosen === boxes.length;
  };
  whole.addEventListener('change', () => {
    boxes.forEach((box) => { box.checked = whole.checked; });
    say();
  });
  choose.addEventListener('change', say);
}

// The live view: rows as they come. Texts that others wrote become texts of nodes and nothing else.
const live = document.getElementById('live');
if (live) {
  const body = live.querySelector('tbody');
  const columns = [...live.querySelectorAll('thead th')].map((column) => [column.textContent, column.className]);
  const state = document.getElementById('live-state');
  const pause = document.getElementById('live-pause');
  const leftOut = document.getElementById('live-left-out');
  const most = Number(live.dataset.rows);
  const rows = new Map();
  let source = null;
  let last = '';
  let failures = 0;
  let again = 0;
  let isFresh = true;

  const short = (made, { text, brief }) => {
    if (brief) {
      made.textContent = brief;
      made.title = text;
      made.dataset.copy = text;
    }
    return made;
  };
  const node = (part) => {
    switch (part.is) {
      case 'text': return short(element('span', part.text), part);
      case 'code': return short(element('code', part.text), part);
      case 'state': return element('span', part.text, `state ${part.class}`);
      case 'link': {
        const link = element('a', part.text);
        // The server gives paths alone; nothing else is made a link.
        if (part.href.startsWith('/') && !part.href.startsWith('//')) link.setAttribute('href', part.href);
        return short(link, part);
      }
      case 'time': {
        const time = element('time', '', 'ago');
        time.dateTime = part.exact;
        time.title = part.exact;
        return time;
      }
      default: {
        const none = element('span', '–', 'none');
        none.setAttribute('aria-label', 'none');
        none.setAttribute('role', 'img');
        return none;
      }
    }
  };
  const show = ({ job, cells }) => {
    const row = document.createElement('tr');
    cells.forEach((part, at) => {
      const cell = document.createElement('td');
      const [name, className] = columns[at];
      cell.dataset.column = name;
      cell.className = `${part.column} ${className}`;
      const made = node(part);
      if (part.column === 'sentence') made.title = part.text;
      cell.append(made);
      row.append(cell);
    });
    // The last link leads to what the row is about.
    [...row.querySelectorAll('a')].pop()?.classList.add('open');
    enliven(row);
    const known = job && rows.get(job);
    if (known) {
      if (known === shownRow) mark(row);
      known.replaceWith(row);
    } else {
      body.prepend(row);
      while (body.rows.length > most) {
        const oldest = body.rows[body.rows.length - 1];
        rows.delete(oldest.dataset.job);
        oldest.remove();
      }
    }
    if (job) {
      row.dataset.job = job;
      rows.set(job, row);
    }
  };
  const say = (text) => { state.textContent = text; };
  const hangUp = () => {
    clearTimeout(again);
    if (source) source.close();
    source = null;
  };
  const connect = () => {
    hangUp();
    again = 0;
    const address = new URL(live.dataset.events, document.baseURI);
    if (last) address.searchParams.set('after', last);
    source = new EventSource(address.href);
    source.onopen = () => {
      failures = 0;
      // The stream begins with the newest rows.
      if (isFresh) body.replaceChildren();
      isFresh = false;
      say('Rows appear as deliveries come.');
    };
    source.onerror = () => {
      say('The connection is lost; trying again.');
      // A browser tries again by itself, but not after an answer that is no stream.
      if (source.readyState !== EventSource.CLOSED) return;
      hangUp();
      failures += 1;
      if (failures < 10) again = setTimeout(connect, 3000 * failures);
      else say('The connection is lost. Load the page again.');
    };
    source.addEventListener('row', (event) => {
      last = event.lastEventId;
      show(JSON.parse(event.data));
    });
    source.addEventListener('gone', (event) => {
      const { job } = JSON.parse(event.data);
      rows.get(job)?.remove();
      rows.delete(job);
    });
    source.addEventListener('left_out', () => { leftOut.hidden = false; });
    source.addEventListener('ended', () => {
      hangUp();
      pause.hidden = true;
      say('The session has ended. Load the page again to sign in.');
    });
  };

  pause.hidden = false;
  pause.addEventListener('click', () => {
    if (source || again) {
      hangUp();
      again = 0;
      pause.textContent = 'Go on';
      say('Paused. What comes meanwhile is shown when you go on.');
    } else {
      pause.textContent = 'Pause';
      connect();
    }
  });
  connect();
}
