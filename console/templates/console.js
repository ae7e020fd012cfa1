// Shows times in the viewer's zone. Their titles stay in UTC.
for (const time of document.querySelectorAll('time[datetime]')) {
  const at = new Date(time.dateTime);
  if (!Number.isNaN(at.getTime())) {
    time.textContent = at.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
  }
}
