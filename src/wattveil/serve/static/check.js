// Sends a bundle to be checked, and shows the verdict.
const form = document.getElementById("check");
const verdict = document.getElementById("verdict");

form.addEventListener("submit", async event => {
  event.preventDefault();
  verdict.textContent = "Checking: this takes some seconds.";
  const answer = await fetch("/verify", {
    method: "POST",
    body: document.getElementById("bundle").files[0],
    headers: {"Content-Type": "application/zip", "X-Form-Word": form.dataset.word},
  }).catch(() => null);
  if (answer?.redirected) return location.reload(); // signed out: to the door
  if (answer?.ok) verdict.innerHTML = await answer.text(); // our own fragment, escaped by the server
  else verdict.textContent = answer?.status === 413
    ? "It is too large to be checked here." : "It could not be checked; try again later.";
});
