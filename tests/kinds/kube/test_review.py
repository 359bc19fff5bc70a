"""Reviews of access, in both forms that clients write."""

from __future__ import annotations

import json
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.kinds.kube.review import access_question
from svc.kinds.web.head import BadHead, read_request
from svc.model.policy.access import ContextValue

HEAD = b"POST /apis/authorization.k8s.io/%s HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
ABOUT = ("namespace", "verb", "group", "version", "resource", "subresource", "name")


def field(number: int, data: bytes) -> bytes:
    """One of a message in protobuf, shorter than 128 bytes."""
    return bytes((number << 3 | 2, len(data))) + data


def in_protobuf(about: Mapping[str, str], other: bool = False) -> bytes:
    """A review with these attributes."""
    names = ("path", "verb") if other else ABOUT
    attributes = b"".join(
        field(n, about[name].encode()) for n, name in enumerate(names, 1) if name in about
    )
    review = field(1, b"") + field(2, field(2 if other else 1, attributes)) + field(3, b"\x08\x00")
    kind = field(1, b"authorization.k8s.io/v1") + field(2, b"SelfSubjectAccessReview")
    return b"k8s\0" + field(1, kind) + field(2, review) + field(3, b"") + field(4, b"")


class ReviewTests(SynchronousTestCase):
    def asked(self, body: bytes) -> tuple[str, Mapping[str, ContextValue]]:
        """Action and facts that the policy is asked for."""
        question = access_question(read_request(HEAD % b"v1/selfsubjectaccessreviews"))
        assert question is not None
        heard: list[tuple[str, Mapping[str, ContextValue]]] = []

        def allows(action: str, facts: Mapping[str, ContextValue]) -> bool:
            heard.append((action, facts))
            return True

        self.assertIsNone(question(body, allows))
        return heard[0]

    def test_both_forms(self) -> None:
        """What is asked about is the request itself, as it would be decided."""
        for about, action, facts in (
            (
                {"verb": "list", "resource": "pods", "namespace": "shop"},
                "k8sAccess",
                {
                    "verb": "list",
                    "api_group": "",
                    "api_resource": "pods",
                    "object_namespace": "shop",
                },
            ),
            (
                {"verb": "create", "resource": "pods", "subresource": "exec", "name": "a"},
                "k8sExec",
                {
                    "verb": "create",
                    "api_group": "",
                    "api_resource": "pods/exec",
                    "object_name": "a",
                },
            ),
            (
                {"verb": "get", "group": "apps", "version": "v1", "resource": "deployments"},
                "k8sAccess",
                {
                    "verb": "get",
                    "api_group": "apps",
                    "api_version": "v1",
                    "api_resource": "deployments",
                },
            ),
        ):
            said = json.dumps({"spec": {"resourceAttributes": about}}).encode()
            for body in (said, in_protobuf(about)):
                self.assertEqual(self.asked(body), (action, facts), body)
        other = {"path": "/healthz", "verb": "get"}
        said = json.dumps({"spec": {"nonResourceAttributes": other}}).encode()
        for body in (said, in_protobuf(other, other=True)):
            self.assertEqual(self.asked(body), ("k8sAccess", other))

    def test_other_requests(self) -> None:
        """Nothing but a review of one's own access is answered here."""
        for path in (
            b"v1/selfsubjectrulesreviews",
            b"v1/subjectaccessreviews",
            b"v1/selfsubjectaccessreviews/a",
            b"v1",
        ):
            self.assertIsNone(access_question(read_request(HEAD % path)))
        get = HEAD.replace(b"POST", b"GET") % b"v1/selfsubjectaccessreviews"
        self.assertIsNone(access_question(read_request(get)))

    @given(st.one_of(st.binary(), st.builds(lambda data: b"k8s\0" + data, st.binary())))
    def test_any_body(self, body: bytes) -> None:
        """One that cannot be read is refused, and nothing worse."""
        question = access_question(read_request(HEAD % b"v1/selfsubjectaccessreviews"))
        assert question is not None
        try:
            question(body, lambda action, facts: True)
        except BadHead as refusal:
            self.assertEqual(refusal.reason, "question")
