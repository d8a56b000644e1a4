"""Records by which a release is found: Croissant, DCAT-AP, a dataset card and a citation file.

All of them are made from the manifest: they state nothing that it does not state. The card is that
of Hugging Face, `README.md` with a header in YAML. `wattveil metadata` writes them.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import yaml

from wattveil.bundle.card import card_text, citation
from wattveil.bundle.deployment_registry import registry_record
from wattveil.bundle.manifest import Manifest
from wattveil.bundle.report import number_text
from wattveil.products.request import NOT_STATED

CROISSANT = "http://mlcommons.org/croissant/1.1"
_TERMS = (
    *("arrayShape", "citeAs", "column", "equivalentProperty", "extract", "field", "fileObject"),
    *("fileProperty", "fileSet", "format", "includes", "isArray", "isLiveDataset", "jsonPath"),
    *("key", "md5", "parentField", "path", "recordSet", "references", "regex", "repeated"),
    *("replace", "samplingRate", "separator", "source", "subField", "transform"),
)
"""Terms of Croissant; its validator warns if the context lacks one."""
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "dct": "http://purl.org/dc/terms/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    **{term: f"cr:{term}" for term in _TERMS},
}
_TYPES = {"double": "sc:Float", "int64": "sc:Integer", "string": "sc:Text"}
_MEDIA = {
    "csv": "text/csv",
    "parquet": "application/x-parquet",
    "json": "application/json",
    "html": "text/html",
    "md": "text/markdown",
}


def croissant(manifest: Manifest, url: str) -> str:
    """Return Croissant 1.1 metadata with fields of the responsible-AI vocabulary, as JSON-LD."""
    files = [
        {
            "@type": "cr:FileObject",
            "@id": one["path"],
            "name": one["path"],
            "contentUrl": f"{url}/{one['path']}",
            "contentSize": f"{one['bytes']} B",
            "encodingFormat": _media(one["path"]),
            "sha256": one["sha256"],
        }
        for one in manifest["payload"]
    ]
    records = [_record_set(table) for part in manifest["products"] for table in part["tables"]]
    record = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": [CROISSANT, "http://mlcommons.org/croissant/RAI/1.0"],
        **_described(manifest, url),
        "citeAs": " ".join(citation(manifest)),
        "rai:dataCollection": "Readings of electricity meters of customers of the curator.",
        "rai:dataPreprocessingProtocol": manifest["preprocessing"],
        "rai:personalSensitiveInformation": manifest["guarantee_text"],
        "rai:dataUseCases": manifest["intended_use"],
        "rai:dataLimitations": [*manifest["known_limits"], *manifest["unprotected"]],
        "rai:dataBiases": [_bias(one) for one in manifest["bias"]],
        "rai:dataReleaseMaintenancePlan": f"{manifest['refresh']}. Replaces release:"
        f" {manifest['supersedes']}.",
        "distribution": files,
        "recordSet": records,
    }
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"


def dcat(manifest: Manifest, url: str) -> str:
    """Return a record of the EU's application profile for data portals, DCAT-AP, as JSON-LD."""
    record = {
        "@context": {
            "dcat": "http://www.w3.org/ns/dcat#",
            "dct": "http://purl.org/dc/terms/",
            "foaf": "http://xmlns.com/foaf/0.1/",
            "vcard": "http://www.w3.org/2006/vcard/ns#",
        },
        "@id": url,
        "@type": "dcat:Dataset",
        "dct:title": manifest["title"],
        "dct:description": _description(manifest),
        "dct:identifier": manifest["release_id"],
        "dct:issued": manifest["published_at"],
        "dct:publisher": {"@type": "foaf:Organization", "foaf:name": manifest["curator"]},
        "dct:spatial": manifest["region"],
        "dcat:theme": {"@id": "http://publications.europa.eu/resource/authority/data-theme/ENER"},
        "dcat:keyword": _keywords(manifest),
        **_unless_not_stated(
            manifest["contact"],
            {"dcat:contactPoint": {"@type": "vcard:Organization", "vcard:fn": manifest["contact"]}},
        ),
        "dcat:distribution": [
            {
                "@type": "dcat:Distribution",
                "dcat:accessURL": {"@id": f"{url}/{one['path']}"},
                "dcat:mediaType": _media(one["path"]),
                "dcat:byteSize": one["bytes"],
                **_unless_not_stated(
                    manifest["licence"], {"dct:license": _linked(manifest["licence"])}
                ),
            }
            for one in manifest["payload"]
        ],
    }
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"


def dataset_card(manifest: Manifest, url: str) -> str:
    """Return a dataset card of Hugging Face: the card of the release under a header."""
    tables = [table["name"] for part in manifest["products"] for table in part["tables"]]
    header = {
        "pretty_name": manifest["title"],
        **_unless_not_stated(manifest["licence"], _card_licence(manifest["licence"])),
        "tags": [*_keywords(manifest), "croissant"],
        "configs": [
            {"config_name": name, "data_files": f"tables/{name}.parquet"} for name in tables
        ],
    }
    head = yaml.safe_dump(header, sort_keys=False, allow_unicode=True)
    return f"---\n{head}---\n\n{card_text(manifest)}\nSource: {url}\n"


def citation_file(manifest: Manifest, url: str) -> str:
    """Return `CITATION.cff` of the release, in the Citation File Format 1.2.0."""
    record: dict[str, Any] = {
        "cff-version": "1.2.0",
        "message": "Cite this release as follows.",
        "type": "dataset",
        "title": manifest["title"],
        "authors": [{"name": manifest["curator"]}],
        "date-released": manifest["published_at"][:10],
        "version": manifest["release_id"],
        "url": url,
    }
    if manifest["doi"] != NOT_STATED:
        record["doi"] = manifest["doi"]
    if manifest["licence"] != NOT_STATED:
        name = "license-url" if _is_address(manifest["licence"]) else "license"
        record[name] = manifest["licence"]
    text: str = yaml.safe_dump(record, sort_keys=False, allow_unicode=True)
    return text


RECORDS: Mapping[str, Callable[[Manifest, str], str]] = {
    "croissant.json": croissant,
    "dcat.jsonld": dcat,
    "README.md": dataset_card,
    "CITATION.cff": citation_file,
}
"""Every record of a release, by file name."""
REGISTRY = "registry.yaml"


def catalogue_records(manifest: Manifest, url: str) -> dict[str, str]:
    """Return all records by file name; the registry of deployments lists the global tier alone."""
    records = {name: write(manifest, url) for name, write in RECORDS.items()}
    if _is_global(manifest):
        records[REGISTRY] = registry_record(manifest)
    return records


_KEYWORDS = ("electricity", "smart meter", "load profile")


def _keywords(manifest: Manifest) -> list[str]:
    """Return keywords; only the global tier may be found as differential privacy."""
    return [*_KEYWORDS, *(["differential privacy"] if _is_global(manifest) else [])]


def _is_global(manifest: Manifest) -> bool:
    return bool(manifest["variant"] == "approximate")


def _described(manifest: Manifest, url: str) -> dict[str, Any]:
    identifiers = [manifest["release_id"]]
    if manifest["doi"] != NOT_STATED:
        identifiers += [f"https://doi.org/{manifest['doi']}"]
    return {
        "name": manifest["title"],
        "description": _description(manifest),
        "license": manifest["licence"],
        "url": url,
        "identifier": identifiers,
        "version": "1.0.0",
        "datePublished": manifest["published_at"],
        "creator": {"@type": "Organization", "name": manifest["curator"]},
        "keywords": _keywords(manifest),
        "isLiveDataset": False,
    }


def _description(manifest: Manifest) -> str:
    covered = next(
        (one["value"] for one in manifest["bias"] if one["source"] == "excluded customers"), None
    )
    share = "" if covered is None else f" It covers about {float(covered):.0%} of all meters."
    return f"{manifest['guarantee_text']} Region: {manifest['region']}.{share}"


def _record_set(table: Mapping[str, Any]) -> dict[str, Any]:
    name = table["name"]
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "description": table["text"],
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{name}/{column['name']}",
                "name": column["name"],
                "description": column["text"],
                "dataType": _TYPES[column["type"]],
                "source": {
                    "fileObject": {"@id": f"tables/{name}.csv"},
                    "extract": {"column": column["name"]},
                },
            }
            for column in table["columns"]
        ],
    }


def _bias(one: Mapping[str, Any]) -> str:
    number = number_text(one)
    value = f"{one['kind']}, {number}" if number else one["kind"]
    return f"{one['source']}, {one['quantity']}: {value} ({one['basis']})"


def _is_address(licence: str) -> bool:
    return "://" in licence


def _linked(licence: str) -> str | dict[str, str]:
    return {"@id": licence} if _is_address(licence) else licence


def _card_licence(licence: str) -> dict[str, str]:
    """Return the licence of a dataset card, which knows identifiers only."""
    if _is_address(licence):
        return {"license": "other", "license_link": licence}
    return {"license": licence.lower()}


def _unless_not_stated(text: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {} if text == NOT_STATED else fields


def _media(path: str) -> str:
    return _MEDIA[path.rpartition(".")[2]]
