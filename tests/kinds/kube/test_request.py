"""What requests are to the API server: the cases of its own published table, and refusals."""

from __future__ import annotations

from attrs import asdict
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.kinds.kube.actions import action_of
from svc.kinds.kube.request import RequestInfo, request_info
from svc.kinds.kube.terms import TERMS, facts_of
from svc.kinds.web.head import BadHead, read_request

PODS = "/api/v1/namespaces/other/pods"
NAMED = "/apis/group/version/resource?fieldSelector="


def read(method: str, target: str) -> RequestInfo:
    """What a request of this line is."""
    head = f"{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n"
    return request_info(read_request(head.encode("ascii")))


# A field selector, and the name that it leaves.
SELECTORS = r"""
metadata.name=n                  n
metadata.name==n                 n
metadata.name!=n                 -
metadata.name=                   -
metadata.name                    -
metadata.namespace=n             -
a=b,metadata.name=n              n
,metadata.name=n,                n
metadata.name=b,metadata.name=a  a
metadata.name=n,foo              -
a=\\,metadata.name=n             n
a=\,metadata.name=n              -
a=\,b,metadata.name=n            n
a=\\\,metadata.name=n            -
a=\=b,metadata.name=n            n
a=\\\\,metadata.name=n           n
a\,b=c,metadata.name=n           n
a\=b,metadata.name=n             n
a!b=c,metadata.name=n            n
metadata.name=n\                 -
metadata.name=\n                 -
metadata.name=a=b                -
metadata.name==a=b               -
metadata.name=a\=b               a=b
metadata.name=a\,b               a,b
metadata.name=a\\b               a\b
metadata.name=a/b                -
metadata.name=a%b                -
metadata.name=.                  -
metadata.name=..                 -
"""

# method, path, then verb, group, version, namespace, resource, subresource, name
RESOURCES = """
GET /api/v1/namespaces                          list - v1 - namespaces - -
GET /api/v1/namespaces/other                    get - v1 other namespaces - other
GET /api/v1/namespaces/other/pods               list - v1 other pods - -
GET /api/v1/namespaces/other/pods/foo           get - v1 other pods - foo
HEAD /api/v1/namespaces/other/pods/foo          get - v1 other pods - foo
GET /api/v1/pods                                list - v1 - pods - -
HEAD /api/v1/pods                               list - v1 - pods - -
GET /api/v1/proxy/namespaces/other/pods/foo     proxy - v1 other pods - foo
GET /api/v1/proxy/namespaces/other/pods/foo/a/b proxy - v1 other pods - foo
GET /api/v1/watch/pods                          watch - v1 - pods - -
GET /api/v1/pods?watch=true                     watch - v1 - pods - -
GET /api/v1/pods?watch                          watch - v1 - pods - -
GET /api/v1/pods?watch=False                    list - v1 - pods - -
GET /api/v1/watch/namespaces/other/pods         watch - v1 other pods - -
GET /api/v1/namespaces/other/pods?watch=1       watch - v1 other pods - -
GET /api/v1/namespaces/other/pods?watch=0       list - v1 other pods - -
GET /api/v1/namespaces/other/pods/foo?watch=1   get - v1 other pods - foo
GET /api/v1/namespaces/other/pods/foo/status    get - v1 other pods status foo
GET /api/v1/namespaces/other/pods/foo/proxy/sub get - v1 other pods proxy foo
PUT /api/v1/namespaces/other/finalize           update - v1 other namespaces finalize other
PUT /api/v1/namespaces/other/status             update - v1 other namespaces status other
PATCH /api/v1/namespaces/other/pods/foo         patch - v1 other pods - foo
DELETE /api/v1/namespaces/other/pods/foo        delete - v1 other pods - foo
DELETE /api/v1/namespaces/other/pods/foo/       delete - v1 other pods - foo
POST /api/v1/namespaces/other/pods              create - v1 other pods - -
PATCH /api/v1/namespaces/new                    patch - v1 new namespaces - new
GET /api/v1/pods?watch=false                    list - v1 - pods - -
GET /apis/g/v/r?fieldSelector=metadata.name=n,foo&watch=false list g v - r - -
GET /apis/g/v/r?fieldSelector=foo=bar&labelSelector=a=b list g v - r - -
DELETE /apis/g/v/r?fieldSelector=foo=bar        deletecollection g v - r - -
GET /apis/g/v/r/n?fieldSelector=foo=bar         get g v - r - n
GET /apis/g/v/watch/r?fieldSelector=metadata.name=foo watch g v - r - -
GET /apis/g/v/watch/r/n?fieldSelector=metadata.name=foo watch g v - r - n
POST /api/version/resource                      create - version - resource - -
POST /apis/g/v/r/n/sub                          create g v - r sub n
POST /api/version/resource/name/sub             create - version - resource sub name
GET /apis/batch/v1/job                          list batch v1 - job - -
GET /apis/batch/v1/job/foo                      get batch v1 - job - foo
POST /apis/extensions/v1/namespaces/a/pods      create extensions v1 a pods - -
DELETE /api/v1/nodes                            deletecollection - v1 - nodes - -
DELETE /api/v1/namespaces                       deletecollection - v1 - namespaces - -
DELETE /api/v1/namespaces/other/pods            deletecollection - v1 other pods - -
DELETE /apis/extensions/v1/namespaces/a/pods    deletecollection extensions v1 a pods - -
POST /apis/extensions/v1beta3/namespaces/a/pods create extensions v1beta3 a pods - -
GET /apis/batch/v1/job/foo/scale                get batch v1 - job scale foo
GET /apis/g/v/r?fieldSelector=metadata.name=n   list g v - r - n
GET /apis/g/v/r?fieldSelector=metadata.name==n  list g v - r - n
GET /apis/g/v/r?fieldSelector=a=b,metadata.name%3Dn&watch=1 watch g v - r - n
GET /apis/g/v/r?fieldSelector=metadata.name!=n  list g v - r - -
GET /apis/g/v/r?fieldSelector=foo=bar           list g v - r - -
GET /apis/g/v/r?fieldSelector=metadata.name=n,foo list g v - r - -
GET /apis/g/v/r?fieldSelector=metadata.name=n,foo&watch=true watch g v - r - -
GET /apis/g/v/r?fieldSelector=metadata.name=a%2Fb list g v - r - -
GET /apis/g/v/r?fieldSelector=metadata.name=..  list g v - r - -
GET /api/v1/a%2Dpods/%66oo                      get - v1 - a-pods - foo
"""

OTHERS = (
    "/",
    "/api",
    "/api/version",
    "/api/version/",
    "/apis/extensions/v1beta1",
    "/apis/extensions/v1beta1/",
    "/not-api/version/resource",
    "/apis/group/version/",
    "/apis/version/resource",
    "/badprefix/version/resource",
    "/healthz",
    "/version",
)


class RequestInfoTests(SynchronousTestCase):
    def test_resources(self) -> None:
        """Each request for a resource is what the API server takes it for."""
        for line in RESOURCES.strip().splitlines():
            method, target, *words = line.split()
            names = "verb", "group", "version", "namespace", "resource", "subresource", "name"
            expected = dict(
                zip(names, ["" if word == "-" else word for word in words], strict=True)
            )
            found = asdict(read(method, target))
            self.assertTrue(found["is_resource"], line)
            self.assertEqual({name: found[name] for name in names}, expected, line)

    def test_selectors(self) -> None:
        """A field selector is read as the API machinery reads it, escapes among them."""
        for line in SELECTORS.strip().splitlines():
            selector, name = line.split()
            encoded = "".join(f"%{ord(one):02x}" for one in selector)
            found = read("GET", NAMED + encoded)
            self.assertEqual((found.verb, found.name), ("list", name.replace("-", "")), line)

    def test_others(self) -> None:
        """The rest is for no resource, and is told by method and path."""
        for path in OTHERS:
            found = read("POST", path)
            self.assertEqual(found, RequestInfo(is_resource=False, verb="post", path=path), path)
            self.assertEqual(facts_of(found), {"verb": "post", "path": path})

    def test_refused(self) -> None:
        """What the server cannot place, or what two servers read differently, is refused.

        kube-apiserver takes the first of a parameter that is repeated; a server behind it may not.
        """
        for target in (
            "/api/v1/watch",
            "/apis/g/v/proxy",
            f"{PODS}?watch=0;watch=1",
            f"{PODS}?watch=%zz",
            f"{PODS}?watch=0&watch=1",
            f"{PODS}?watch=0&%77atch=1",
            f"{NAMED}metadata.name=a&fieldSelector=metadata.name=b",
        ):
            self.assertRaises(BadHead, read, "GET", target)

    def test_actions(self) -> None:
        """Subresources with an action of their own are decided by it, whatever the method."""
        for target, action in (
            (f"{PODS}/a", "k8sAccess"),
            (f"{PODS}/a/log", "k8sAccess"),
            (f"{PODS}/a/exec?command=ls", "k8sExec"),
            (f"{PODS}/a/attach", "k8sAttach"),
            (f"{PODS}/a/portforward", "k8sPortForward"),
            (f"{PODS}/a/proxy/x", "k8sEscape"),
            (f"{PODS}/a/ephemeralcontainers", "k8sEscape"),
            ("/api/v1/nodes/n/proxy", "k8sEscape"),
            ("/api/v1/namespaces/a/services/s/proxy/x", "k8sEscape"),
            ("/api/v1/proxy/nodes/n", "k8sEscape"),
            ("/api/v1/namespaces/a/serviceaccounts/s/token", "k8sEscape"),
            (
                "/apis/certificates.k8s.io/v1/certificatesigningrequests/c/approval",
                "k8sEscape",
            ),
            ("/version", "k8sAccess"),
        ):
            for method in ("GET", "POST", "PUT"):
                found = action_of(read(method, target))
                self.assertEqual(found, action, f"{method} {target}")
                self.assertIn(found, TERMS.actions)

    def test_facts(self) -> None:
        """Resource and subresource are one fact; what a request does not name is left out."""
        self.assertEqual(
            facts_of(read("GET", f"{PODS}/a/log?follow=true")),
            {
                "verb": "get",
                "api_group": "",
                "api_version": "v1",
                "api_resource": "pods/log",
                "object_namespace": "other",
                "object_name": "a",
            },
        )
        self.assertNotIn("object_name", facts_of(read("GET", PODS)))

    @given(
        st.sampled_from(["GET", "PUT", "POST", "PATCH", "DELETE", "OPTIONS"]),
        st.lists(st.sampled_from(["api", "apis", "watch", "proxy", "namespaces", "status", "x"])),
    )
    def test_any_path(self, method: str, parts: list[str]) -> None:
        """A path is placed whole or refused, and only a list or a watch has no name and is read."""
        try:
            found = read(method, "/" + "/".join(parts))
        except BadHead:
            return
        if found.is_resource:
            self.assertIn(found.resource, parts)
            self.assertFalse(found.verb in ("get", "delete") and not found.name)
        else:
            self.assertEqual(found.verb, method.lower())

    @given(st.text(alphabet="metadata.name=!,\\ab/%"))
    def test_any_selector(self, selector: str) -> None:
        """A selector names at most one object, which could stand in a path."""
        encoded = "".join(f"%{ord(one):02x}" for one in selector)
        name = read("GET", NAMED + encoded).name
        self.assertFalse({"/", "%"} & set(name))
