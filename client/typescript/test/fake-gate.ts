// A gate in this process, or, run as a worker, in a thread of its own, which says in workerData when it has answered.
import { isMainThread, parentPort, workerData } from "node:worker_threads";
import { type Metadata, Server, ServerCredentials, status as Status } from "@grpc/grpc-js";
import {
  type AdmissionServiceServer,
  AdmissionServiceService,
  AdmitRequest,
  AdmitResponse,
  ReleaseRequest,
  ReleaseResponse,
  ReleaseResult,
} from "../src/generated/fairgate/v1/admission.js";

export class FakeGate {
  readonly admits: AdmitRequest[] = [];
  readonly releases: ReleaseRequest[] = [];
  readonly metadata: Metadata[] = [];
  /** Of the answers to Admit; Infinity: none comes. */
  delayMs = 0;
  onAnswer: () => void = () => {};
  readonly #server = new Server();

  /** Its address. */
  async start(): Promise<string> {
    const service: AdmissionServiceServer = {
      admit: ({ request, metadata }, done) => {
        this.admits.push(request);
        this.metadata.push(metadata);
        const value = { debited: request.cost, leaseExpiresIn: { seconds: 60 } };
        const { requestId, attempt } = request;
        const answer = AdmitResponse.fromPartial({ requestId, attempt, outcome: { $case: "grant", value } });
        const decide = (): void => {
          done(null, answer);
          this.onAnswer();
        };
        if (this.delayMs !== Infinity) setTimeout(decide, this.delayMs);
      },
      release: ({ request }, done) => {
        this.releases.push(request);
        const isWithdrawal = request.action?.$case === "withdraw";
        const result = ReleaseResult[isWithdrawal ? "RELEASE_RESULT_WITHDRAWN" : "RELEASE_RESULT_SETTLED"];
        done(null, ReleaseResponse.fromPartial({ result }));
      },
      configure: (_, done) => done({ code: Status.UNIMPLEMENTED }),
    };
    this.#server.addService(AdmissionServiceService, service);
    const port = await new Promise<number>((resolve, reject) => {
      const bound = (error: Error | null, number: number): void => (error ? reject(error) : resolve(number));
      this.#server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), bound);
    });
    return `127.0.0.1:${port}`;
  }

  stop(): void {
    this.#server.forceShutdown();
  }
}

if (!isMainThread && parentPort !== null) {
  const gate = new FakeGate();
  gate.delayMs = 30;
  const answers = workerData as Int32Array;
  gate.onAnswer = () => Atomics.add(answers, 0, 1);
  parentPort.postMessage(await gate.start());
}
