const own = document.documentElement.lang;
const language = navigator.languages.find((it) => it.split("-")[0] === own) || own;
for (const time of document.querySelectorAll("time")) {
  const at = new Date(time.dateTime);
  if (!isNaN(at)) time.textContent = at.toLocaleString(language, { dateStyle: "long", timeStyle: "short" });
}
