"""The web page: one file, no build step, nothing loaded from elsewhere. It uses the REST routes like anybody."""

from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import HTMLResponse

_FILE = Path(__file__).parent / "index.html"
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'"


def serve_page(app: FastAPI) -> None:
    """Answers GET / with the page."""
    text = _FILE.read_text(encoding="utf-8")

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    async def page() -> HTMLResponse:
        """Analyses, and one of them live."""
        return HTMLResponse(text, headers={"Content-Security-Policy": _POLICY})
