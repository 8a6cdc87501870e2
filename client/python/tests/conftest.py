"""A gate in this process, with answers that a test writes down."""

import concurrent.futures
import pathlib
import sys
import threading

import pytest

HERE = pathlib.Path(__file__).resolve().parent
CONFORMANCE = HERE.parents[2] / "tests" / "conformance"
if (CONFORMANCE / "staging.py").exists():  # in the project's tree; elsewhere the package is installed
    sys.path.insert(0, str(CONFORMANCE))
    import staging  # noqa: F401

import grpc  # noqa: E402

from fairgate.v1 import admission_pb2 as pb  # noqa: E402
from fairgate.v1 import admission_pb2_grpc as pb_grpc  # noqa: E402


class FakeGate(pb_grpc.AdmissionServiceServicer):
    def __init__(self):
        self.admits, self.releases = [], []
        self.answers = []
        self.may_release = threading.Event()
        self.may_release.set()
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
        pb_grpc.add_AdmissionServiceServicer_to_server(self, self._server)
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def Admit(self, request, context):  # noqa: N802
        self.admits.append(request)
        response = self.answers.pop(0) if self.answers else pb.AdmitResponse(grant=pb.Grant(debited=request.cost))
        response.request_id, response.attempt = request.request_id, request.attempt
        return response

    def Release(self, request, context):  # noqa: N802
        self.may_release.wait(5)
        self.releases.append(request)
        return pb.ReleaseResponse(result=pb.RELEASE_RESULT_SETTLED)

    def stop(self):
        self._server.stop(None)


@pytest.fixture
def gate_server():
    server = FakeGate()
    yield server
    server.stop()
