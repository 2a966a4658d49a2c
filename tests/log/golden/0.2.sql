BEGIN TRANSACTION;
CREATE TABLE event (
        session INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        time REAL NOT NULL,
        kind TEXT NOT NULL,
        body BLOB NOT NULL,
        checksum INTEGER NOT NULL,
        PRIMARY KEY (session, seq)
    ) WITHOUT ROWID;
INSERT INTO "event" VALUES(1,1,1.79493431114178562164e+09,'began',CAST('{"session":"9f9e8012ae16aed7c5de783bf3a2683c","version":"0.2.0"}' AS BLOB),1673635129);
INSERT INTO "event" VALUES(1,2,1.79493431114178562164e+09,'settings',CAST('{"model":"scripted","system":"Be brief.","tools":["look"],"limits":{"max_turns":50,"max_total_tokens":null,"max_cost":null,"max_seconds":null,"max_repeats":10,"max_subagents":200,"tool_seconds":600.0,"result_characters":50000,"attachment_bytes":20971520},"cwd":"/","effort":""}' AS BLOB),3441750260);
INSERT INTO "event" VALUES(1,3,1.79493431121244668961e+09,'message',CAST('{"message":{"role":"user","content":[{"type":"text","text":"What is in the attic?"}]}}' AS BLOB),3553370272);
INSERT INTO "event" VALUES(1,4,1.79493431121594762802e+09,'message',CAST('{"message":{"role":"assistant","content":[{"type":"tool_use","id":"call_1","name":"look","input":{"place":"the attic"}}]},"usage":{"input_tokens":100,"output_tokens":10},"stop_reason":"tool_use","model":"scripted","first_token":0.0}' AS BLOB),269887903);
INSERT INTO "event" VALUES(1,5,1.79493431121594762802e+09,'tool_started',CAST('{"call_id":"call_1","name":"look","effect":"read","key":"9f9e8012ae16aed7c5de783bf3a2683c/call_1","input":{"place":"the attic"}}' AS BLOB),2844715866);
INSERT INTO "event" VALUES(1,6,1.79493431128077721596e+09,'tool_finished',CAST('{"result":{"type":"tool_result","tool_use_id":"call_1","content":[{"type":"text","text":"the attic is empty."}]}}' AS BLOB),3584411360);
INSERT INTO "event" VALUES(1,7,1.79493431129011964798e+09,'message',CAST('{"message":{"role":"assistant","content":[{"type":"text","text":"The attic is empty."}]},"usage":{"input_tokens":100,"output_tokens":10},"stop_reason":"end","model":"scripted","first_token":0.0}' AS BLOB),3335517114);
INSERT INTO "event" VALUES(1,8,1.7949343113038008213e+09,'settings',CAST('{"title":"The attic"}' AS BLOB),2569799104);
INSERT INTO "event" VALUES(1,9,1.79493431131370258331e+09,'message',CAST('{"message":{"role":"user","content":[{"type":"text","text":"What else?"}]}}' AS BLOB),2466266115);
INSERT INTO "event" VALUES(1,10,1.79493431132570075989e+09,'message',CAST('{"message":{"role":"assistant","content":[{"type":"text","text":"Nothing else."}]},"usage":{"input_tokens":100,"output_tokens":10},"stop_reason":"end","model":"scripted","first_token":0.0}' AS BLOB),2319964521);
INSERT INTO "event" VALUES(2,1,1.79493431134638023376e+09,'began',CAST('{"session":"8f7f4c0c257a3fe3bee4a0975dc0bfb2","version":"0.2.0"}' AS BLOB),2953089398);
INSERT INTO "event" VALUES(2,2,1.79493431134638023376e+09,'settings',CAST('{"model":"scripted","system":"","limits":{"max_turns":50,"max_total_tokens":null,"max_cost":null,"max_seconds":null,"max_repeats":10,"max_subagents":200,"tool_seconds":600.0,"result_characters":50000,"attachment_bytes":20971520},"cwd":"/","effort":""}' AS BLOB),1205255964);
INSERT INTO "event" VALUES(2,3,1.79493431136171793938e+09,'message',CAST('{"message":{"role":"user","content":[{"type":"text","text":"Count."}]}}' AS BLOB),2472692428);
INSERT INTO "event" VALUES(2,4,1.79493431137181067467e+09,'message',CAST('{"message":{"role":"assistant","content":[{"type":"text","text":"One."}]},"usage":{"input_tokens":100,"output_tokens":10},"stop_reason":"end","model":"scripted","first_token":0.0}' AS BLOB),2515712208);
INSERT INTO "event" VALUES(2,5,1.79493431137821102142e+09,'message',CAST('{"message":{"role":"user","content":[{"type":"text","text":"Go on."}]}}' AS BLOB),1495996);
INSERT INTO "event" VALUES(2,6,1.79493431137979984283e+09,'message',CAST('{"message":{"role":"assistant","content":[{"type":"text","text":"Two."}]},"usage":{"input_tokens":100,"output_tokens":10},"stop_reason":"end","model":"scripted","first_token":0.0}' AS BLOB),1361640998);
INSERT INTO "event" VALUES(2,7,1794934311.42681,'compacted',CAST('{"summary":{"role":"user","content":[{"type":"text","text":"[The earlier part of this conversation was replaced by this summary to save room. Nothing is lost: Recall(query=\"…\") searches the earlier messages and results, and Recall(reference=\"…\") reads one of them whole. Use it when a detail is missing, and do not guess. The newest messages follow.]\n\n## Goal\nCount."},{"type":"text","text":"The newest messages of the user before this point, verbatim:\n\n> Count.\n\n> Go on."}]},"kept":1,"reason":"manual","tokens_before":110,"tokens_after":591,"usage":{"input_tokens":100,"output_tokens":10},"model":"scripted"}' AS BLOB),3060681415);
INSERT INTO "event" VALUES(2,8,1794934311.43703,'message',CAST('{"message":{"role":"user","content":[{"type":"text","text":"Go on."}]}}' AS BLOB),3179538765);
INSERT INTO "event" VALUES(2,9,1.79493431144174218178e+09,'message',CAST('{"message":{"role":"assistant","content":[{"type":"text","text":"Three."}]},"usage":{"input_tokens":100,"output_tokens":10},"stop_reason":"end","model":"scripted","first_token":0.0}' AS BLOB),1783251780);
INSERT INTO "event" VALUES(3,1,1.79493431145562410355e+09,'began',CAST('{"session":"f125b0d6c5a32da263fd70a634a770ad","version":"0.2.0"}' AS BLOB),179475746);
INSERT INTO "event" VALUES(3,2,1.79493431145562410355e+09,'settings',CAST('{"model":"scripted","system":"","tools":["look","leave"],"limits":{"max_turns":50,"max_total_tokens":null,"max_cost":null,"max_seconds":null,"max_repeats":10,"max_subagents":200,"tool_seconds":600.0,"result_characters":50000,"attachment_bytes":20971520},"cwd":"/","effort":""}' AS BLOB),1742259661);
INSERT INTO "event" VALUES(3,3,1.79493431146393847466e+09,'message',CAST('{"message":{"role":"user","content":[{"type":"text","text":"Look left, then leave."}]}}' AS BLOB),2999025675);
INSERT INTO "event" VALUES(3,4,1.79493431146862268448e+09,'message',CAST('{"message":{"role":"assistant","content":[{"type":"tool_use","id":"call_1","name":"look","input":{"place":"left"}}]},"usage":{"input_tokens":100,"output_tokens":10},"stop_reason":"tool_use","model":"scripted","first_token":0.0}' AS BLOB),457998158);
INSERT INTO "event" VALUES(3,5,1.79493431146862268448e+09,'tool_started',CAST('{"call_id":"call_1","name":"look","effect":"read","key":"f125b0d6c5a32da263fd70a634a770ad/call_1","input":{"place":"left"}}' AS BLOB),3963988901);
INSERT INTO "event" VALUES(3,6,1.7949343114750919342e+09,'tool_finished',CAST('{"result":{"type":"tool_result","tool_use_id":"call_1","content":[{"type":"text","text":"left is empty."}]}}' AS BLOB),868649651);
INSERT INTO "event" VALUES(3,7,1.79493431148575329781e+09,'message',CAST('{"message":{"role":"assistant","content":[{"type":"tool_use","id":"call_2","name":"leave","input":{"place":"the house"}}]},"usage":{"input_tokens":100,"output_tokens":10},"stop_reason":"tool_use","model":"scripted","first_token":0.0}' AS BLOB),4164838025);
INSERT INTO "event" VALUES(3,8,1.79493431148575329781e+09,'tool_started',CAST('{"call_id":"call_2","name":"leave","effect":"write","key":"f125b0d6c5a32da263fd70a634a770ad/call_2","input":{"place":"the house"}}' AS BLOB),399767869);
CREATE TABLE listener (               -- holders that take messages
        session INTEGER PRIMARY KEY,
        fence INTEGER NOT NULL
    );
CREATE TABLE question (
        id TEXT PRIMARY KEY,
        session INTEGER NOT NULL,
        fence INTEGER NOT NULL,           -- of the holder that asks
        call_id TEXT NOT NULL,
        body TEXT NOT NULL,
        asked REAL NOT NULL,
        answer TEXT,                      -- NULL while it waits
        answered_by TEXT NOT NULL DEFAULT '',
        answered REAL
    );
CREATE TABLE reference (
        session INTEGER NOT NULL,
        sha256 TEXT NOT NULL,
        PRIMARY KEY (session, sha256)
    ) WITHOUT ROWID;
CREATE TABLE session (
        number INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused
        id TEXT NOT NULL UNIQUE,
        parent TEXT NOT NULL DEFAULT '',
        title TEXT NOT NULL DEFAULT '',
        model TEXT NOT NULL DEFAULT '',
        settings TEXT NOT NULL DEFAULT '{}', -- the newest value of each setting
        created REAL NOT NULL,
        updated REAL NOT NULL,
        opened INTEGER NOT NULL,          -- counts up with every opening, independent of clocks
        last INTEGER NOT NULL DEFAULT 0,  -- the seq of the newest event
        turns INTEGER NOT NULL DEFAULT 0,
        size INTEGER NOT NULL DEFAULT 0,
        entries INTEGER NOT NULL DEFAULT 0, -- equal to `last`, unless events were lost
        input_tokens INTEGER NOT NULL DEFAULT 0,
        output_tokens INTEGER NOT NULL DEFAULT 0,
        cached_tokens INTEGER NOT NULL DEFAULT 0,
        cache_write_tokens INTEGER NOT NULL DEFAULT 0,
        reasoning_tokens INTEGER NOT NULL DEFAULT 0,
        cost REAL,
        holder TEXT NOT NULL DEFAULT '',  -- the process that has it open
        fence INTEGER NOT NULL DEFAULT 0, -- counts up with every holder; writes with an older number fail
        beat INTEGER NOT NULL DEFAULT 0,  -- counts up while the holder is alive
        beaten REAL NOT NULL DEFAULT 0
    );
INSERT INTO "session" VALUES(1,'9f9e8012ae16aed7c5de783bf3a2683c','','The attic','scripted','{"title":"The attic","model":"scripted","system":"Be brief.","tools":["look"],"limits":{"max_turns":50,"max_total_tokens":null,"max_cost":null,"max_seconds":null,"max_repeats":10,"max_subagents":200,"tool_seconds":600.0,"result_characters":50000,"attachment_bytes":20971520},"cwd":"/","effort":""}',1.79493431119367408752e+09,1.79493431132593750954e+09,1,10,3,1378,10,300,30,0,0,0,NULL,'',1,0,1.79493431119367408752e+09);
INSERT INTO "session" VALUES(2,'8f7f4c0c257a3fe3bee4a0975dc0bfb2','','Count.','scripted','{"model":"scripted","system":"","limits":{"max_turns":50,"max_total_tokens":null,"max_cost":null,"max_seconds":null,"max_repeats":10,"max_subagents":200,"tool_seconds":600.0,"result_characters":50000,"attachment_bytes":20971520},"cwd":"/","effort":"","abridged":true}',1.79493431135367536545e+09,1.794934311443359375e+09,2,9,3,1692,9,400,40,0,0,0,NULL,'',1,0,1.79493431135367536545e+09);
INSERT INTO "session" VALUES(3,'f125b0d6c5a32da263fd70a634a770ad','','Look left, then leave.','scripted','{"model":"scripted","system":"","tools":["look","leave"],"limits":{"max_turns":50,"max_total_tokens":null,"max_cost":null,"max_seconds":null,"max_repeats":10,"max_subagents":200,"tool_seconds":600.0,"result_characters":50000,"attachment_bytes":20971520},"cwd":"/","effort":""}',1.79493431145598268509e+09,1.7949343114859995842e+09,3,8,2,1248,8,200,20,0,0,0,NULL,'',1,0,1.79493431145598268509e+09);
CREATE TABLE signal (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        session INTEGER NOT NULL,
        fence INTEGER NOT NULL,           -- of the holder that it is for
        body TEXT NOT NULL,
        sent REAL NOT NULL,
        taken REAL
    );
CREATE INDEX session_opened ON session (opened);
CREATE INDEX session_parent ON session (parent) WHERE parent != '';
CREATE INDEX question_session ON question (session);
CREATE INDEX signal_session ON signal (session);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('session',3);
COMMIT;
PRAGMA application_id=1330992210;
PRAGMA user_version=2;
