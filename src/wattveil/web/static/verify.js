// Uploads a bundle for verification and shows the findings.
const form = document.getElementById("check");
const verdict = document.getElementById("verdict");

form.addEventListener("submit", async event => {
  event.preventDefault();
  verdict.textContent = "Verifying: this takes a few seconds.";
  const answer = await fetch("/verify", {
    method: "POST",
    body: document.getElementById("bundle").files[0],
    headers: {"Content-Type": "application/zip", "X-CSRF-Token": form.dataset.csrfToken},
  }).catch(() => null);
  if (answer?.redirected) return location.reload(); // signed out
  if (answer?.ok) verdict.innerHTML = await answer.text(); // our own fragment, escaped by the server
  else verdict.textContent = answer?.status === 413
    ? "The bundle is too large to be verified here." : "The bundle could not be verified; try again later.";
});
