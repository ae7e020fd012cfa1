// Shows times in the viewer's zone. Their titles stay in UTC.
function local(time) {
  const at = new Date(time.dateTime);
  if (!Number.isNaN(at.getTime())) {
    time.textContent = at.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
  }
}
document.querySelectorAll('time[datetime]').forEach(local);

// The live view: rows as they come. Texts that others wrote become texts of nodes and nothing else.
const live = document.getElementById('live');
if (live) {
  const body = live.querySelector('tbody');
  const columns = [...live.querySelectorAll('thead th')].map((column) => column.textContent);
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

  const element = (name, text, className) => {
    const made = document.createElement(name);
    made.textContent = text;
    if (className) made.className = className;
    return made;
  };
  const node = (part) => {
    switch (part.is) {
      case 'text': return document.createTextNode(part.text);
      case 'code': return element('code', part.text);
      case 'state': return element('span', part.text, `state ${part.class}`);
      case 'link': {
        const link = element('a', part.text);
        // The server gives paths alone; nothing else is made a link.
        if (part.href.startsWith('/') && !part.href.startsWith('//')) link.setAttribute('href', part.href);
        return link;
      }
      case 'time': {
        const time = element('time', part.text);
        time.dateTime = part.exact;
        time.title = part.exact;
        local(time);
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
      cell.dataset.column = columns[at];
      cell.append(node(part));
      row.append(cell);
    });
    const known = job && rows.get(job);
    if (known) {
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
  const close = () => {
    clearTimeout(again);
    if (source) source.close();
    source = null;
  };
  const connect = () => {
    close();
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
      close();
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
      close();
      pause.hidden = true;
      say('The session has ended. Load the page again to sign in.');
    });
  };

  pause.hidden = false;
  pause.addEventListener('click', () => {
    if (source || again) {
      close();
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
